#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace sam3 {

// NumPy's .npy, version 1.0, float32 in C order. Written whole or not at all.
void write_npy(const std::string& path, std::span<const float> values, std::span<const int64_t> shape);

}  // namespace sam3
