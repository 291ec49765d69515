#pragma once

#include "weights/weight_type.h"

#include <cstdint>

// From f32 to ggml's blocks, bit for bit as ggml's own quantisers without an importance matrix: the same sums in the
// same order, so this code is compiled without fused multiply-adds.
namespace sam3 {

// One block of block_size(type) values into block_bytes(type) bytes of any alignment. Fails
// for values that are not finite or beyond what 16-bit scales reach.
void quantize_block(WeightType type, const float* x, uint8_t* block);

}  // namespace sam3
