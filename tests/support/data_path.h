#pragma once

#include <cstdlib>
#include <string>

namespace sam3::test {

// A file of tests/data; the environment variable SAM3_TEST_DATA says where that lies when the tests were built
// elsewhere.
inline std::string data_path(const std::string& name) {
    const char* const moved = std::getenv("SAM3_TEST_DATA");
    return std::string(moved != nullptr ? moved : SAM3_TEST_DATA) + "/" + name;
}

}  // namespace sam3::test
