#pragma once

#include <cstdint>

// Kernels for the widest vectors of the CPU that runs the program, in a program built for the oldest one.
//
// Every file in simd/kernels is compiled once per variant (baseline, avx2, avx512; see ../CMakeLists.txt), each time
// into the namespace sam3::simd::<variant>, which the build passes as SAM3_SIMD_VARIANT. The kernels are written with
// Vec from vec.h, whose width follows the compiler's flags. A variant's functions meet in one Table; table() is the
// best one that this CPU runs, chosen once. SAM3_CPU_ISA=baseline|avx2|avx512|avx512vnni|avx512bf16 in the environment
// caps the choice. The last two are avx512 with some functions replaced: each adds the instructions in its name.
//
// A new kernel: a line in SAM3_FOR_EACH_SIMD_FUNCTION and its definition in a file of simd/kernels. Such a file
// includes only vec.h, vec_math.h and simd.h: an inline function of the standard library emitted there with AVX-512
// instructions could be the copy that the linker keeps for the whole program.
namespace sam3::simd {

struct TokenGrid;       // attention.h
struct AttentionSizes;  // attention.h
struct AttentionBlock;  // attention.h
struct GemmPanel;       // gemm.h
struct Int8Layout;      // gemm.h
struct Int8Row;         // gemm.h
struct Int8Panel;       // gemm.h
struct Bf16Panel;       // gemm.h
struct DepthwiseRow;    // gemm.h
struct BoxBiasLine;     // box_bias.h

// X(name, parameters). Element-wise functions work in place too (out == in) and keep NaN.
#define SAM3_FOR_EACH_SIMD_FUNCTION(X)                                                                            \
    X(exp, (float* out, const float* in, int64_t n))                                                              \
    X(tanh, (float* out, const float* in, int64_t n))                                                             \
    X(sigmoid, (float* out, const float* in, int64_t n))                                                          \
    X(silu, (float* out, const float* in, int64_t n))                                                             \
    X(gelu, (float* out, const float* in, int64_t n))      /* x * Phi(x), exact (erf) */                          \
    X(gelu_tanh, (float* out, const float* in, int64_t n)) /* the tanh approximation of it */                     \
    X(relu, (float* out, const float* in, int64_t n))                                                             \
    SAM3_FOR_EACH_ATTENTION_FUNCTION(X)                                                                           \
    /* one row of n */                                                                                            \
    X(layer_norm, (float* out, const float* x, const float* gamma, const float* beta, int64_t n, float eps))      \
    X(softmax, (float* out, const float* x, int64_t n))                                                           \
    /* x [rows, channels], dense: per channel the mean and the sum of squared differences from it */              \
    X(channel_moments, (float* mean, float* squares, const float* x, int64_t rows, int64_t channels))             \
    /* out = (x - mean[c]) * scale[c] + shift[c] */                                                               \
    X(normalize_channels, (float* out, const float* x, const float* mean, const float* scale, const float* shift, \
                           int64_t rows, int64_t channels))                                                       \
    /* rotates the pairs of one token's heads; angles [head_size / 2, 2]: cos, sin */                             \
    X(rotate_pairs, (float* x, const float* angles, int64_t heads, int64_t head_size))                            \
    /* the matrix product, gemm.h; packing makes a panel [depth][width] of B */                                   \
    X(gemm_tile_columns, (int64_t * columns))                                                                     \
    X(gemm_panel, (const GemmPanel& panel))                                                                       \
    X(gemm_pack,                                                                                                  \
      (float* out, const float* in, int64_t in_stride, int64_t columns, int64_t depth)) /* in [depth][columns] */ \
    X(gemm_pack_transposed, (float* out, const float* in, int64_t in_stride, int64_t columns, int64_t depth))     \
    X(depthwise_row, (const DepthwiseRow& row))                                                                   \
    X(box_bias_line, (const BoxBiasLine& line))                                                                   \
    SAM3_FOR_EACH_INT8_FUNCTION(X)                                                                                \
    SAM3_FOR_EACH_BF16_FUNCTION(X)

// attention.h; grid_width 0: no factored bias. Packs the tile of keys that starts at `first`, a multiple of kKeyTile,
// of `count` keys in all.
#define SAM3_FOR_EACH_ATTENTION_FUNCTION(X)                                                                    \
    X(attention_sizes,                                                                                         \
      (AttentionSizes * sizes, int64_t keys, int64_t head_size, int64_t value_size, int64_t grid_width))       \
    X(pack_keys, (float* packed, const TokenGrid& tokens, int64_t count, int64_t first, int64_t head_size))    \
    X(pack_values, (float* packed, const TokenGrid& tokens, int64_t count, int64_t first, int64_t value_size)) \
    X(attention_block, (const AttentionBlock& block))

// The products in fewer bits, gemm.h; also compiled with the instructions that only some CPUs of a variant have.
// Packing makes a panel of B from rows of codes, `stride` codes apart, one for each column.
#define SAM3_FOR_EACH_INT8_FUNCTION(X)                                                                       \
    X(int8_layout, (Int8Layout * layout))                                                                    \
    X(int8_code_row, (uint8_t * codes, Int8Row * code, const float* x, int64_t depth)) /* and its padding */ \
    X(int8_code_weights, (int8_t * codes, float* scale, const float* weights, int64_t depth))                \
    X(int8_sum, (int32_t * sum, const int8_t* codes, int64_t depth))                                         \
    X(int8_pack, (int8_t * panel, const int8_t* codes, int64_t stride, int64_t columns, int64_t depth))      \
    X(int8_panel, (const Int8Panel& panel))
#define SAM3_FOR_EACH_BF16_FUNCTION(X)                                                                      \
    X(bf16_code_row, (uint16_t * codes, const float* x, int64_t depth)) /* and its padding */               \
    X(bf16_pack, (uint16_t * panel, const uint16_t* codes, int64_t stride, int64_t columns, int64_t depth)) \
    X(bf16_panel, (const Bf16Panel& panel))

struct Table {
    const char* name;
    int lanes;  // floats in a vector
#define SAM3_SIMD_FUNCTION(name, parameters) void(*name) parameters;
    SAM3_FOR_EACH_SIMD_FUNCTION(SAM3_SIMD_FUNCTION)
#undef SAM3_SIMD_FUNCTION
    const Table* bf16_attention = nullptr;  // its attention functions multiply in bf16; null: that would not be faster
};

// The table in use. Thread-safe.
const Table& table();

// All tables that this CPU can run, best first, ended by a null pointer.
const Table* const* available_tables();

// Replaces the table in use, for tests of the other variants; not while kernels run.
void use_table(const Table& chosen);

}  // namespace sam3::simd
