#pragma once

#include "runtime/tensor.h"

namespace sam3::nn {

// Tables that depend on sizes only, in host memory.

// Axial RoPE for a height x width grid: [height*width, head_size/2, 2] of cos and sin, first the x frequencies, then
// the y frequencies; coordinates are multiplied by `scale`.
Tensor axial_rope_table(int64_t height, int64_t width, int64_t head_size, float theta, float scale);

// DETR's normalised sine encoding of a grid: [height*width, channels], y half first, then x.
Tensor sine_position_table(int64_t height, int64_t width, int64_t channels, float temperature = 10000.0F);

// The same encoding of one normalised scalar: `size` values, sines and cosines in turn.
void sine_encode(float value, int64_t size, float* out, float temperature = 10000.0F);

// A [side*side, C] embedding repeated over a height x width grid and cropped: [height, width, C].
Tensor tile_positions(const Tensor& embedding, int64_t height, int64_t width);

// Relative positions by distance [L, D] -> by query and key of a line of `size`: [size, size, D]. When L is not
// 2 * size - 1, the distances are interpolated first, as SAM 1's get_rel_pos does.
Tensor relative_position_table(const Tensor& by_distance, int64_t size);

}  // namespace sam3::nn
