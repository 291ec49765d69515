#pragma once

#include <string>
#include <string_view>

namespace sam3 {

// Text from a file, made fit for an error message: quoted, control bytes shown as '?', cut after 120 bytes.
inline std::string quote_name(std::string_view text) {
    constexpr size_t kLimit = 120;
    std::string result = "'";
    for (char c : text.substr(0, kLimit)) result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    return result + (text.size() > kLimit ? "...'" : "'");
}

}  // namespace sam3
