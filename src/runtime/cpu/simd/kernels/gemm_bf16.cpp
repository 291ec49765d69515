#include "runtime/cpu/simd/gemm.h"

#include "runtime/cpu/simd/bf16.h"
#include "runtime/cpu/simd/kernels/functions.h"
#include "runtime/cpu/simd/kernels/gemm_tile.h"

namespace sam3::simd::SAM3_SIMD_VARIANT {

namespace {

constexpr int64_t kGroup = 2;

int64_t groups_of(int64_t depth) { return (depth + kGroup - 1) / kGroup; }

struct Bf16Coding {
    using Sum = Vec;
    using Weights = IntVec;
    static constexpr int64_t kWeightBytes = sizeof(IntVec);
    SAM3_INLINE Weights load(const uint8_t* p) { return load_pairs(reinterpret_cast<const uint16_t*>(p)); }
    SAM3_INLINE Sum add(Sum sum, IntVec row, Weights weights) { return add_pair_products(sum, row, weights); }
};

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
    const Columns columns(*panel.output, panel.column, panel.columns);
    const int64_t stride = panel.a_stride * static_cast<int64_t>(sizeof(uint16_t));
    const auto* a = reinterpret_cast<const uint8_t*>(panel.a);
    const auto* b = reinterpret_cast<const uint8_t*>(panel.b);
    for_each_tile(*panel.output, columns, panel.rows, [&](int64_t row, float* tile) {
        Vec sum[kTileRows][kTileVectors];
        multiply_codes<Bf16Coding>(a + row * stride, stride, b, groups_of(panel.depth), sum);
        SAM3_UNROLL(kTileRows, i, SAM3_UNROLL(kTileVectors, j, store(tile + i * kTileColumns + j * kLanes, sum[i][j])));
    });
}

}  // namespace sam3::simd::SAM3_SIMD_VARIANT
