#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>

namespace sam3::cuda {

// Whether the driver can describe tensors to Hopper's bulk copies.
bool can_map_tensors();

// A bf16 tensor of five dimensions, innermost first; strides of all but the innermost, in elements. A copy brings a
// box; rows of the box are `row_bytes` long (64 or 128) and shuffled as hopper.cuh's describe() expects.
CUtensorMap tensor_map(const void* data, const std::array<int64_t, 5>& sizes, const std::array<int64_t, 4>& strides,
                       const std::array<int, 5>& box, int row_bytes);

}  // namespace sam3::cuda
