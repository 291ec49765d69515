#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace sam3 {

// A sentence for the person who can act on it: what was expected, what was found, where, what to try.
// Thrown inside the library; src/api turns it into an error value.
class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// Joins its arguments with operator<<: str("expected ", 3, " channels").
template <typename... Args>
std::string str(const Args&... args) {
    std::ostringstream stream;
    (stream << ... << args);
    return stream.str();
}

template <typename... Args>
[[noreturn]] void fail(const Args&... args) {
    throw Error(str(args...));
}

}  // namespace sam3
