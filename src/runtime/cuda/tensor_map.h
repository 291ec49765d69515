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

// Dense images [N, H, W, C] of bf16 as a kernel of 3 x 3 sees them: a copy brings 64 channels of `pixels` that follow
// each other line by line. Lines begin one column to the left of the image, the first of them one above it; there are
// as many as the image has. What lies outside of an image is zero.
CUtensorMap pixel_map(const void* data, const std::array<int64_t, 4>& sizes, int pixels);

}  // namespace sam3::cuda
