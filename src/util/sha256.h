#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace sam3 {

// SHA-256 of a stream of bytes (FIPS 180-4), as download pages and sha256sum state it.
class Sha256 {
public:
    void add(const void* data, size_t bytes);
    std::string hex();  // of all that was added; ends the stream

private:
    void take_block(const uint8_t* block);

    std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    std::array<uint8_t, 64> rest_{};
    size_t resting_ = 0;
    uint64_t total_ = 0;
};

}  // namespace sam3
