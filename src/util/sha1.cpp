#include "util/sha1.h"

#include <array>
#include <bit>
#include <cstdint>

namespace sam3 {

namespace {

using State = std::array<uint32_t, 5>;

void add_block(State& state, const char* block) {
    std::array<uint32_t, 80> words{};
    for (size_t i = 0; i < 64; ++i) words[i / 4] = words[i / 4] << 8 | static_cast<uint8_t>(block[i]);
    for (size_t i = 16; i < 80; ++i)
        words[i] = std::rotl(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);

    auto [a, b, c, d, e] = state;
    for (size_t i = 0; i < 80; ++i) {
        const bool is_majority = i >= 40 && i < 60;
        const uint32_t mixed = i < 20 ? (b & c) | (~b & d) : is_majority ? (b & c) | (b & d) | (c & d) : b ^ c ^ d;
        constexpr std::array<uint32_t, 4> kRound{0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
        const uint32_t next = std::rotl(a, 5) + mixed + e + kRound[i / 20] + words[i];
        e = d;
        d = c;
        c = std::rotl(b, 30);
        b = a;
        a = next;
    }
    const State added{a, b, c, d, e};
    for (size_t i = 0; i < state.size(); ++i) state[i] += added[i];
}

}  // namespace

std::string sha1_hex(std::string_view text) {
    State state{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    const size_t whole = text.size() / 64 * 64;
    for (size_t at = 0; at < whole; at += 64) add_block(state, text.data() + at);

    std::string rest(text.substr(whole));
    rest += '\x80';
    while (rest.size() % 64 != 56) rest += '\0';
    for (int shift = 56; shift >= 0; shift -= 8) rest += static_cast<char>(uint64_t{text.size()} * 8 >> shift);
    for (size_t at = 0; at < rest.size(); at += 64) add_block(state, rest.data() + at);

    std::string digits;
    for (uint32_t word : state)
        for (int shift = 28; shift >= 0; shift -= 4) digits += "0123456789abcdef"[word >> shift & 15U];
    return digits;
}

}  // namespace sam3
