#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sam3 {

// NumPy's .npy: float32 in C order. Files are written whole or not at all.
struct NpyArray {
    std::vector<int64_t> shape;
    std::vector<float> values;
};

bool is_npy(std::span<const uint8_t> bytes);
// Fails with a sentence for anything but little-endian float32 in C order, at most 1 GB; `name` names the file in it.
NpyArray decode_npy(std::span<const uint8_t> bytes, const std::string& name);

void write_npy(const std::string& path, std::span<const float> values, std::span<const int64_t> shape);

}  // namespace sam3
