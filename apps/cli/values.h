#pragma once

#include "mask/geometry.h"

#include <stdexcept>
#include <string>
#include <vector>

namespace sam3::cli {

// A wrong option: exit code 2, unlike a failure of the work itself.
class UsageError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// "1,2.5,3" -> exactly `count` finite numbers, or a UsageError that names the option.
std::vector<float> parse_numbers(const std::string& option, const std::string& text, size_t count);

// "X0,Y0,X1,Y1"
Box parse_box(const std::string& option, const std::string& text);

// A variable of the environment; empty when it is not set.
std::string environment(const char* name);

// Threads to use when none are asked for: one per core that this process may run on.
int default_threads();

}  // namespace sam3::cli
