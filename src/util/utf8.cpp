#include "util/utf8.h"

#include <cstdint>

namespace sam3::unicode {

namespace {

constexpr char32_t kReplacement = 0xFFFD;

struct Lead {
    int length;         // bytes in the sequence; 0 for a byte that starts none
    uint8_t low, high;  // limits of the second byte, which exclude surrogates and overlong forms
};

Lead lead_of(uint8_t byte) {
    if (byte < 0x80) return {1, 0, 0};
    if (byte < 0xC2) return {0, 0, 0};
    if (byte < 0xE0) return {2, 0x80, 0xBF};
    if (byte == 0xE0) return {3, 0xA0, 0xBF};
    if (byte == 0xED) return {3, 0x80, 0x9F};
    if (byte < 0xF0) return {3, 0x80, 0xBF};
    if (byte == 0xF0) return {4, 0x90, 0xBF};
    if (byte < 0xF4) return {4, 0x80, 0xBF};
    if (byte == 0xF4) return {4, 0x80, 0x8F};
    return {0, 0, 0};
}

}  // namespace

std::u32string from_utf8(std::string_view bytes) {
    std::u32string out;
    out.reserve(bytes.size());
    for (size_t i = 0; i < bytes.size();) {
        const auto byte = static_cast<uint8_t>(bytes[i++]);
        const Lead lead = lead_of(byte);
        if (lead.length == 1) {
            out += byte;
            continue;
        }
        if (lead.length == 0) {
            out += kReplacement;
            continue;
        }
        char32_t c = byte & (0x7FU >> lead.length);
        int read = 1;
        for (; read < lead.length && i < bytes.size(); ++read, ++i) {
            const auto next = static_cast<uint8_t>(bytes[i]);
            if (next < (read == 1 ? lead.low : 0x80) || next > (read == 1 ? lead.high : 0xBF)) break;
            c = (c << 6U) | (next & 0x3FU);
        }
        out += read == lead.length ? c : kReplacement;
    }
    return out;
}

void append_utf8(std::string& out, char32_t c) {
    const auto put = [&](char32_t byte) { out += static_cast<char>(static_cast<uint8_t>(byte)); };
    if (c < 0x80) {
        put(c);
    } else if (c < 0x800) {
        put(0xC0 | (c >> 6U));
        put(0x80 | (c & 0x3FU));
    } else if (c < 0x10000) {
        put(0xE0 | (c >> 12U));
        put(0x80 | ((c >> 6U) & 0x3FU));
        put(0x80 | (c & 0x3FU));
    } else {
        put(0xF0 | (c >> 18U));
        put(0x80 | ((c >> 12U) & 0x3FU));
        put(0x80 | ((c >> 6U) & 0x3FU));
        put(0x80 | (c & 0x3FU));
    }
}

std::string to_utf8(std::u32string_view text) {
    std::string out;
    out.reserve(text.size());
    for (const char32_t c : text) append_utf8(out, c);
    return out;
}

}  // namespace sam3::unicode
