#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>

namespace sam3::cuda {

// Whether the driver can describe tensors to Hopper's bulk copies.
bool can_map_tensors();

// A tensor of five dimensions, innermost first, of elements of one or two bytes; strides of all but the innermost, in
// elements. A copy brings a box; rows of the box are `row_bytes` long (64 or 128) and shuffled as hopper.cuh's
// describe() expects.
CUtensorMap tensor_map(const void* data, const std::array<int64_t, 5>& sizes, const std::array<int64_t, 4>& strides,
                       const std::array<int, 5>& box, int row_bytes, int element_bytes = 2);

}  // namespace sam3::cuda
