#pragma once

#include <cstdint>

// What the matrix-product driver (cpu/gemm.cpp) and its kernel (kernels/gemm.cpp) agree on.
//
// The kernel multiplies a block of rows of A, copied so that its rows are kGemmDepthStride apart, with one panel of B:
// the columns that one register tile covers, stored [depth][width], width = columns rounded up to whole vectors.
// An element of the result is one chain of multiply-adds over the depth of a block, and the blocks' sums are added in
// order. Nothing of that depends on the other rows or columns, so neither tiling nor threads change a result.
namespace sam3::simd {

constexpr int64_t kGemmDepth = 512;                    // most elements of K in a block
constexpr int64_t kGemmDepthStride = kGemmDepth + 16;  // keeps a block's rows off each other's cache sets
constexpr int64_t kGemmTileRows = 6;

// The same order as sam3::Activation.
enum class Epilogue : int { none, relu, gelu, gelu_tanh, sigmoid, silu };

struct GemmOutput {  // out = activation(alpha * sum + bias) + residual
    float* out;
    const int64_t* row_offsets;  // of the block's rows in out
    const float* residual;       // or null; may be out itself
    const int64_t* residual_offsets;
    const float* bias;  // per column of B, or null
    float alpha;
    Epilogue activation;
    // Column c of B lands at (c / split) * split_stride + c % split, in out and in the residual.
    int64_t split, split_stride;
};

struct GemmPanel {
    const float* a;  // [rows][kGemmDepthStride]
    int64_t rows, depth;
    const float* b;    // [depth][width]
    int64_t column;    // index of the panel's first column in the whole of B
    int64_t columns;   // at most gemm_tile_columns()
    float* sums;       // [rows][gemm_tile_columns()] of the blocks of K before; unused when first and last
    bool first, last;  // block of K
    const GemmOutput* output;
};

// Products in fewer bits. A row of A and the weights of a column of B are coded before they meet; a panel of B holds
// [depth / group][gemm_tile_columns()][group] codes, missing ones zero, and a row of A is one line of codes. Whole
// tiles are multiplied: A has codes for rows rounded up to kGemmTileRows, and the superfluous results go nowhere.
struct Int8Layout {
    int64_t group;     // codes of a column that lie side by side
    int64_t row_code;  // bytes of a code in a row of A
};

struct Int8Row {  // x = scale * (code - zero), codes 0 ... 255
    float scale;
    int32_t zero;
};

struct Int8Panel {
    const uint8_t* a;  // rows a_stride bytes apart
    int64_t a_stride;
    const Int8Row* row_codes;
    int64_t rows, depth;
    const int8_t* b;
    int64_t column, columns;
    const float* scales;  // of every column of B: weight = scale * code, codes -127 ... 127
    const int32_t* sums;  // of every column's codes
    const GemmOutput* output;
};

struct Bf16Panel {  // groups of two
    const uint16_t* a;
    int64_t a_stride;  // in elements
    int64_t rows, depth;
    const uint16_t* b;
    int64_t column, columns;
    const GemmOutput* output;
};

// One output row of a depthwise convolution, all channels. Rows of the kernel outside the image are already cut off.
struct DepthwiseRow {
    const float* in;  // [kernel_h][in_width][channels], rows in_stride apart
    int64_t in_width, in_stride, channels;
    const float* weights;                         // [kernel_h][kernel_w][channels]
    int64_t kernel_h, kernel_w, stride, padding;  // padding: columns left of the image
    int64_t out_width;
    float* out;             // [out_width][channels]
    const float* residual;  // like out, or null
    const float* bias;      // [channels], or null
    Epilogue activation;
};

}  // namespace sam3::simd
