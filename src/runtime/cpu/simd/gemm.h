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
