#include "util/base64.h"

#include "util/error.h"

#include <algorithm>

namespace sam3 {

namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64_encode(std::span<const uint8_t> bytes) {
    std::string out;
    for (size_t i = 0; i < bytes.size(); i += 3) {
        const size_t count = std::min<size_t>(3, bytes.size() - i);
        uint32_t group = 0;
        for (size_t j = 0; j < 3; ++j) group = group << 8 | (j < count ? bytes[i + j] : 0U);
        for (size_t j = 0; j < 4; ++j) out += j <= count ? kAlphabet[group >> (18 - 6 * j) & 63U] : '=';
    }
    return out;
}

std::vector<uint8_t> base64_decode(std::string_view text) {
    while (text.ends_with('=') || text.ends_with('\n')) text.remove_suffix(1);
    std::vector<uint8_t> bytes;
    bytes.reserve(text.size() / 4 * 3 + 3);
    uint32_t bits = 0;
    int count = 0;
    for (const char c : text) {
        if (c == '\n' || c == '\r') continue;
        const size_t value = kAlphabet.find(c);
        if (value == std::string_view::npos)
            fail("expected base64, found the character code ", static_cast<int>(static_cast<unsigned char>(c)));
        bits = bits << 6 | static_cast<uint32_t>(value);
        count += 6;
        if (count < 8) continue;
        count -= 8;
        bytes.push_back(static_cast<uint8_t>(bits >> count & 0xFF));
    }
    return bytes;
}

}  // namespace sam3
