#pragma once

#include "runtime/shape.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace sam3 {

// How numbers lie in a weight file. The q* types are ggml's blocks: a row is cut into blocks of 32 or 256 values,
// each with its own scale. `unsupported` stands for types that are listed but cannot be read.
enum class WeightType : uint8_t {
    f32,
    f16,
    bf16,
    f64,
    i8,
    u8,
    i16,
    i32,
    i64,
    bool_,
    q4_0,
    q4_1,
    q5_0,
    q5_1,
    q8_0,
    q4_k,
    q5_k,
    q6_k,
    unsupported,
};

std::string_view name_of(WeightType type);
int64_t block_size(WeightType type);   // values in a block; 1 for plain types
int64_t block_bytes(WeightType type);  // bytes of a block; 0 for unsupported
bool is_quantized(WeightType type);

// Empty when a dimension is negative or the product does not fit into 63 bits.
std::optional<int64_t> checked_numel(const Shape& shape);
// Empty as well when the last dimension is not a whole number of blocks, or the type is unsupported.
std::optional<uint64_t> checked_bytes(WeightType type, const Shape& shape);

}  // namespace sam3
