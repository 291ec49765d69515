#include "values.h"

#include "util/error.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <thread>

namespace sam3::cli {

std::vector<float> parse_numbers(const std::string& option, const std::string& text, size_t count) {
    std::vector<float> numbers;
    const char* at = text.c_str();
    while (true) {
        char* end = nullptr;
        const float value = std::strtof(at, &end);
        if (end == at || !std::isfinite(value)) break;
        numbers.push_back(value);
        if (*end != ',') {
            at = end;
            break;
        }
        at = end + 1;
    }
    if (numbers.size() != count || *at != '\0')
        throw UsageError(str(option, " expects ", count, " numbers separated by commas, found '", text, "'"));
    return numbers;
}

Box parse_box(const std::string& option, const std::string& text) {
    const std::vector<float> n = parse_numbers(option, text, 4);
    return {n[0], n[1], n[2], n[3]};
}

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

int default_threads() { return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 64U)); }

}  // namespace sam3::cli
