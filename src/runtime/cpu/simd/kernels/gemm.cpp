#include "runtime/cpu/simd/gemm.h"

#include "runtime/cpu/simd/kernels/functions.h"
#include "runtime/cpu/simd/kernels/gemm_tile.h"

namespace sam3::simd::SAM3_SIMD_VARIANT {

namespace {

// to[Rows][kTileColumns] = a b + add, where add is like `to` or null.
template <int Rows, int Vectors>
void multiply_tile(const float* a, const float* b, int64_t depth, const float* add, float* to) {
    constexpr int64_t kPrefetch = 8;  // rows of B ahead
    Vec sum[Rows][Vectors];
    SAM3_UNROLL(Rows, i, SAM3_UNROLL(Vectors, j, sum[i][j] = Vec{}));
#pragma GCC unroll 4
    for (int64_t k = 0; k < depth; ++k) {
        Vec row[Vectors];
        SAM3_UNROLL(Vectors, j, row[j] = load(b + j * kLanes);
                    if (j * kLanes % 16 == 0) __builtin_prefetch(b + kPrefetch * Vectors * kLanes + j * kLanes));
        b += Vectors * kLanes;
        SAM3_UNROLL(Rows, i, const Vec element = broadcast(a[i * kGemmDepthStride + k]);
                    SAM3_UNROLL(Vectors, j, sum[i][j] += element * row[j]));
    }
    if (add != nullptr)
        SAM3_UNROLL(Rows, i, SAM3_UNROLL(Vectors, j, sum[i][j] += load(add + i * kTileColumns + j * kLanes)));
    SAM3_UNROLL(Rows, i, SAM3_UNROLL(Vectors, j, store(to + i * kTileColumns + j * kLanes, sum[i][j])));
}

using Multiply = void (*)(const float*, const float*, int64_t, const float*, float*);

// Edges of a product have smaller tiles.
template <int Vectors>
Multiply multiply_for_rows(int64_t rows) {
    static_assert(kTileRows == 6);
    switch (rows) {
        case 1: return multiply_tile<1, Vectors>;
        case 2: return multiply_tile<2, Vectors>;
        case 3: return multiply_tile<3, Vectors>;
        case 4: return multiply_tile<4, Vectors>;
        case 5: return multiply_tile<5, Vectors>;
        default: return multiply_tile<6, Vectors>;
    }
}

Multiply multiply_for(int64_t rows, int64_t vectors) {
    if constexpr (kTileVectors == 4) {
        if (vectors == 4) return multiply_for_rows<4>(rows);
        if (vectors == 3) return multiply_for_rows<3>(rows);
    }
    return vectors == 2 ? multiply_for_rows<2>(rows) : multiply_for_rows<1>(rows);
}

void prefetch_sums(const float* sums, int64_t rows) {
    for (int64_t i = 0; i < rows * kTileColumns; i += 16) __builtin_prefetch(sums + i);
}

template <int... Lane>
struct Lanes {};
template <int Count, int... Lane>
struct FirstLanes : FirstLanes<Count - 1, Count - 1, Lane...> {};
template <int... Lane>
struct FirstLanes<0, Lane...> {
    using Type = Lanes<Lane...>;
};

// Exchanges the upper half of each 2 * Step lanes of `a` with the lower half of those of `b`.
template <int Step, int... Lane>
SAM3_INLINE void exchange(Vec& a, Vec& b, Lanes<Lane...>) {
    const Vec low = __builtin_shufflevector(a, b, ((Lane & Step) != 0 ? Lane - Step + kLanes : Lane)...);
    b = __builtin_shufflevector(a, b, ((Lane & Step) != 0 ? Lane + kLanes : Lane + Step)...);
    a = low;
}

// Turns rows into columns, lane l of rows[i] becoming lane i of rows[l], by exchanging ever smaller blocks.
template <int Step = kLanes / 2>
SAM3_INLINE void transpose(Vec (&rows)[kLanes]) {
    SAM3_UNROLL(kLanes, i,
                if constexpr ((i & Step) == 0) exchange<Step>(rows[i], rows[i + Step], FirstLanes<kLanes>::Type()));
    if constexpr (Step > 1) transpose<Step / 2>(rows);
}

}  // namespace

void gemm_tile_columns(int64_t* columns) { *columns = kTileColumns; }

void gemm_panel(const GemmPanel& panel) {
    alignas(64) float tile[kTileRows * kTileColumns];
    const Columns columns(*panel.output, panel.column, panel.columns);
    const FinishTile finish = finish_for(panel.output->activation);
    for (int64_t row = 0; row < panel.rows; row += kTileRows) {
        const int64_t rows = panel.rows - row < kTileRows ? panel.rows - row : kTileRows;
        const float* a = panel.a + row * kGemmDepthStride;
        float* sums = panel.sums + row * kTileColumns;
        if (panel.last) prefetch_rows(*panel.output, columns, row, rows);
        if (!panel.first) prefetch_sums(sums, rows);
        multiply_for(rows, columns.vectors)(a, panel.b, panel.depth, panel.first ? nullptr : sums,
                                            panel.last ? tile : sums);
        if (panel.last) finish(*panel.output, columns, tile, row, rows);
    }
}

void gemm_pack_transposed(float* out, const float* in, int64_t in_stride, int64_t columns, int64_t depth) {
    const int64_t width = (columns + kLanes - 1) / kLanes * kLanes;
    for (int64_t c = 0; c < width; c += kLanes) {
        int64_t k = 0;
        if (c + kLanes <= columns) {
            for (; k + kLanes <= depth; k += kLanes) {
                Vec rows[kLanes];
                SAM3_UNROLL(kLanes, i, rows[i] = load(in + (c + i) * in_stride + k));
                transpose(rows);
                SAM3_UNROLL(kLanes, i, store(out + (k + i) * width + c, rows[i]));
            }
        }
        for (; k < depth; ++k)
            for (int64_t i = c; i < c + kLanes; ++i) out[k * width + i] = i < columns ? in[i * in_stride + k] : 0.0F;
    }
}

void gemm_pack(float* out, const float* in, int64_t in_stride, int64_t columns, int64_t depth) {
    const int64_t width = (columns + kLanes - 1) / kLanes * kLanes;
    for (int64_t k = 0; k < depth; ++k) {
        int64_t c = 0;
        for (; c + kLanes <= columns; c += kLanes) store(out + k * width + c, load(in + k * in_stride + c));
        if (c < width) store(out + k * width + c, load_first(in + k * in_stride + c, columns - c));
    }
}

}  // namespace sam3::simd::SAM3_SIMD_VARIANT
