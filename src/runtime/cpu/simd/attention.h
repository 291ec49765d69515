#pragma once

#include <cstdint>

namespace sam3::simd {

// Where token t of an attention operand lies: base + (t / width) * stride_y + (t % width) * stride_x.
// Tokens of a plain list have width >= count; a window's tokens lie on a grid.
struct TokenGrid {
    const float* base;
    int64_t width;
    int64_t stride_y, stride_x;
};

constexpr int64_t kQueryBlock = 96;  // most query rows of an AttentionBlock
constexpr int64_t kKeyTile = 256;    // keys between two updates of the running maximum; the unit of packing

struct AttentionSizes {                  // in floats, each a multiple of 16
    int64_t packed_keys, packed_values;  // of one head
    int64_t scratch;                     // of one thread
};

// Up to kQueryBlock queries of one head against all its keys. Biases and offsets point at the first query's row.
struct AttentionBlock {
    TokenGrid q;  // of the head
    float* out;   // of the head; laid out as out_grid says, its base unused
    TokenGrid out_grid;
    int64_t first_query, queries;
    const float* packed_keys;
    const float* packed_values;
    const float* key_limits;  // [keys rounded up to 16]: 0, or -infinity for an ignored key; or null
    int64_t keys, head_size, value_size;
    float scale;
    bool causal;
    const float* bias;  // [queries, keys] or null
    int64_t bias_stride;
    const float* bias_rows;  // [queries, keys / grid_width] or null
    const float* bias_cols;  // [queries, grid_width]
    int64_t bias_rows_stride, bias_cols_stride, grid_width;
    float* scratch;
};

}  // namespace sam3::simd
