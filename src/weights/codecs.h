#pragma once

#include "weights/weight_type.h"

#include <cstdint>

// Between the types of weight files and f32. Sources and encoded destinations may have any alignment.
namespace sam3 {

// Exact; a signalling NaN becomes quiet, as the processor's own conversion does.
float f16_to_f32(uint16_t half);
float bf16_to_f32(uint16_t brain);
// To nearest, ties to even; too large becomes infinity.
uint16_t f32_to_f16(float value);
uint16_t f32_to_bf16(float value);

// `count` values, a whole number of blocks. Fails for WeightType::unsupported.
void decode_to_f32(WeightType type, const uint8_t* source, int64_t count, float* destination);

bool can_encode(WeightType type);  // f32, f16, bf16 and all blocks
// `count` values, a whole number of blocks, into count / block_size(type) * block_bytes(type) bytes.
// Blocks fail for values that are not finite or above the range of their scales.
void encode_from_f32(WeightType type, const float* source, int64_t count, uint8_t* destination);

}  // namespace sam3
