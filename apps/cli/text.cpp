#include "command.h"

#include <array>
#include <cstdio>

namespace sam3::cli {

std::string pretty_size(uint64_t bytes) {
    if (bytes < 1000) return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
    static constexpr std::array<const char*, 5> kUnits = {"kB", "MB", "GB", "TB", "PB"};
    auto value = static_cast<double>(bytes) / 1000.0;
    size_t unit = 0;
    for (; value >= 999.95 && unit + 1 < kUnits.size(); ++unit) value /= 1000.0;
    std::array<char, 32> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "%.1f %s", value, kUnits[unit]);
    return buffer.data();
}

std::string pretty_count(uint64_t count) {
    const std::string digits = std::to_string(count);
    std::string out;
    for (size_t i = 0; i < digits.size(); ++i) {
        if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
        out += digits[i];
    }
    return out;
}

std::string printable(const std::string& text) {
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte != 0x7F) {
            out += c;
            continue;
        }
        std::array<char, 8> buffer{};
        std::snprintf(buffer.data(), buffer.size(), "\\x%02x", byte);
        out += buffer.data();
    }
    return out;
}

}  // namespace sam3::cli
