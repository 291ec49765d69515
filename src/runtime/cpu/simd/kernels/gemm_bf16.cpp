#include "runtime/cpu/simd/gemm.h"

#include "runtime/cpu/simd/bf16.h"
#include "runtime/cpu/simd/kernels/functions.h"
#include "runtime/cpu/simd/kernels/gemm_tile.h"

namespace sam3::simd::SAM3_SIMD_VARIANT {

namespace {

constexpr int64_t kGroup = 2;

int64_t groups_of(int64_t depth) { return (depth + kGroup - 1) / kGroup; }

// tile[kTileRows][kTileColumns] = a b
void multiply_tile(const Bf16Panel& panel, int64_t row, float* tile) {
    constexpr int64_t kStep = kTileColumns * kGroup;
    constexpr int64_t kPrefetch = 8;  // groups ahead
    const uint16_t* a = panel.a + row * panel.a_stride;
    const uint16_t* b = panel.b;
    const int64_t stride = panel.a_stride;
    const int64_t groups = groups_of(panel.depth);
    Vec sum[kTileRows][kTileVectors];
    SAM3_UNROLL(kTileRows, i, SAM3_UNROLL(kTileVectors, j, sum[i][j] = Vec{}));
#pragma GCC unroll 4
    for (int64_t g = 0; g < groups; ++g) {
        IntVec columns[kTileVectors];
        SAM3_UNROLL(kTileVectors, j, columns[j] = load_pairs(b + j * kLanes * kGroup);
                    if (j * kLanes % 16 == 0) __builtin_prefetch(b + kPrefetch * kStep + j * kLanes * kGroup));
        b += kStep;
        SAM3_UNROLL(kTileRows, i, const IntVec pair = broadcast_pair(a + i * stride);
                    SAM3_UNROLL(kTileVectors, j, sum[i][j] = add_pair_products(sum[i][j], pair, columns[j])));
        a += kGroup;
    }
    SAM3_UNROLL(kTileRows, i, SAM3_UNROLL(kTileVectors, j, store(tile + i * kTileColumns + j * kLanes, sum[i][j])));
}

}  // namespace

void bf16_code_row(uint16_t* codes, const float* x, int64_t depth) {
    int64_t k = 0;
    for (; k + kLanes <= depth; k += kLanes) store_bf16(codes + k, load(x + k));
    const UintVec last = to_bf16(load_first(x + k, depth - k));
    for (int64_t i = k; i < groups_of(depth) * kGroup; ++i)
        codes[i] = i < depth ? static_cast<uint16_t>(last[i - k]) : uint16_t{0};
}

void bf16_pack(uint16_t* panel, const uint16_t* codes, int64_t stride, int64_t columns, int64_t depth) {
    for (int64_t c = 0; c < kTileColumns; ++c) {
        uint16_t* to = panel + c * kGroup;
        for (int64_t k = 0; k < groups_of(depth) * kGroup; ++k)
            to[k / kGroup * kTileColumns * kGroup + k % kGroup] =
                c < columns && k < depth ? codes[c * stride + k] : uint16_t{0};
    }
}

void bf16_panel(const Bf16Panel& panel) {
    alignas(64) float tile[kTileRows * kTileColumns];
    const Columns columns(*panel.output, panel.column, panel.columns);
    const FinishTile finish = finish_for(panel.output->activation);
    for (int64_t row = 0; row < panel.rows; row += kTileRows) {
        const int64_t rows = panel.rows - row < kTileRows ? panel.rows - row : kTileRows;
        prefetch_rows(*panel.output, columns, row, rows);
        multiply_tile(panel, row, tile);
        finish(*panel.output, columns, tile, row, rows);
    }
}

}  // namespace sam3::simd::SAM3_SIMD_VARIANT
