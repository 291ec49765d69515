#pragma once

#include "image/image.h"

#include <array>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

// What the image tests share with the scripts in tests/goldens: the same noise, the same checksum.
namespace sam3::test {

inline uint32_t crc32(const void* data, size_t bytes) {
    const auto* at = static_cast<const uint8_t*>(data);
    uint32_t crc = 0xFFFFFFFFU;
    for (size_t i = 0; i < bytes; ++i) {
        crc ^= at[i];
        for (int k = 0; k < 8; ++k) crc = (crc >> 1) ^ (0xEDB88320U & (0U - (crc & 1U)));
    }
    return ~crc;
}

template <typename T>
uint32_t crc32(const std::vector<T>& values) {
    return crc32(values.data(), values.size() * sizeof(T));
}

inline Image noise(int width, int height, int channels, uint32_t seed, bool contrast = false) {
    Image image(width, height, channels);
    for (size_t i = 0; i < image.pixels.size(); ++i) {
        uint32_t v = static_cast<uint32_t>(i) * 2654435761U + seed * 40503U;
        v = (v ^ (v >> 15)) * 2246822519U;
        v = (v ^ (v >> 13)) * 3266489917U;
        const auto sample = static_cast<uint8_t>(v >> 24);
        image.pixels[i] = contrast ? static_cast<uint8_t>(sample < 128 ? 0 : 255) : sample;
    }
    return image;
}

// The lines of a file under tests/data, without comments.
inline std::vector<std::istringstream> data_lines(const std::string& name) {
    std::ifstream file(std::string(SAM3_TEST_DATA) + "/" + name);
    std::vector<std::istringstream> lines;
    for (std::string line; std::getline(file, line);)
        if (!line.empty() && line[0] != '#') lines.emplace_back(line);
    return lines;
}

}  // namespace sam3::test
