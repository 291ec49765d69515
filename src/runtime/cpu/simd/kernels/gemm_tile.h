#pragma once

#include "runtime/cpu/simd/epilogue.h"
#include "runtime/cpu/simd/gemm.h"
#include "runtime/cpu/simd/unroll.h"

// The register tile of the matrix products and its way to memory, for every precision.
namespace sam3::simd::SAM3_SIMD_VARIANT {

// Accumulators plus one row of B plus one element of A fill the registers.
constexpr int kTileVectors = kRegisters == 32 ? 4 : 2;
constexpr int kTileRows = static_cast<int>(kGemmTileRows);
constexpr int64_t kTileColumns = static_cast<int64_t>(kTileVectors) * kLanes;

// Where a panel's vectors land in a row of the output.
struct Columns {
    int64_t first;    // column of the panel in the whole of B
    int64_t vectors;  // that hold columns
    int64_t offset[kTileVectors];
    int64_t lanes[kTileVectors];  // that exist; 0 beyond the panel
    bool together[kTileVectors];  // the lanes lie side by side
    Vec bias[kTileVectors];

    Columns(const GemmOutput& output, int64_t first_column, int64_t count)
        : first(first_column), vectors((count + kLanes - 1) / kLanes) {
        const int64_t split = output.split;
        for (int j = 0; j < kTileVectors; ++j) {
            const int64_t column = first + j * kLanes;
            const int64_t left = count - j * kLanes;
            offset[j] = column / split * output.split_stride + column % split;
            lanes[j] = left < 0 ? 0 : (left < kLanes ? left : kLanes);
            together[j] = column % split <= split - lanes[j];
            bias[j] = output.bias == nullptr ? Vec{} : load_first(output.bias + column, lanes[j]);
        }
    }
};

// The rare vector that crosses from one of the output's segments into the next.
static void store_apart(const GemmOutput& o, int64_t column, int64_t lanes, Vec v, const float* residual, float* out) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
        const int64_t c = column + lane;
        const int64_t at = c / o.split * o.split_stride + c % o.split;
        out[at] = v[lane] + (residual != nullptr ? residual[at] : 0.0F);
    }
}

template <Epilogue Activation>
static void finish_tile(const GemmOutput& o, const Columns& columns, const float* tile, int64_t first_row,
                        int64_t rows) {
    for (int64_t i = 0; i < rows; ++i) {
        float* out = o.out + o.row_offsets[first_row + i];
        const float* residual = o.residual == nullptr ? nullptr : o.residual + o.residual_offsets[first_row + i];
        for (int64_t j = 0; j < columns.vectors; ++j) {
            const int64_t lanes = columns.lanes[j];
            const int64_t at = columns.offset[j];
            Vec v = load(tile + i * kTileColumns + j * kLanes) * o.alpha + columns.bias[j];
            v = activate<Activation>(v);
            if (!columns.together[j]) {
                store_apart(o, columns.first + j * kLanes, lanes, v, residual, out);
            } else if (lanes == kLanes) {
                if (residual != nullptr) v += load(residual + at);
                store(out + at, v);
            } else {
                if (residual != nullptr) v += load_first(residual + at, lanes);
                store_first(out + at, v, lanes);
            }
        }
    }
}

using FinishTile = void (*)(const GemmOutput&, const Columns&, const float*, int64_t, int64_t);

SAM3_INLINE FinishTile finish_for(Epilogue activation) {
    switch (activation) {
        case Epilogue::none: return finish_tile<Epilogue::none>;
        case Epilogue::relu: return finish_tile<Epilogue::relu>;
        case Epilogue::gelu: return finish_tile<Epilogue::gelu>;
        case Epilogue::gelu_tanh: return finish_tile<Epilogue::gelu_tanh>;
        case Epilogue::sigmoid: return finish_tile<Epilogue::sigmoid>;
        case Epilogue::silu: return finish_tile<Epilogue::silu>;
    }
    return finish_tile<Epilogue::none>;
}

SAM3_INLINE void prefetch_rows(const GemmOutput& output, const Columns& columns, int64_t first_row, int64_t rows) {
    for (int64_t i = 0; i < rows; ++i) {
        const float* out = output.out + output.row_offsets[first_row + i];
        for (int64_t j = 0; j < columns.vectors; ++j) __builtin_prefetch(out + columns.offset[j], 1);
    }
}

// The tiles of a panel, one below the other; multiply(row, tile) computes the one that starts at that row.
template <typename Multiply>
SAM3_INLINE void for_each_tile(const GemmOutput& output, const Columns& columns, int64_t all_rows,
                               const Multiply& multiply) {
    alignas(64) float tile[kTileRows * kTileColumns];
    const FinishTile finish = finish_for(output.activation);
    for (int64_t row = 0; row < all_rows; row += kTileRows) {
        const int64_t rows = all_rows - row < kTileRows ? all_rows - row : kTileRows;
        prefetch_rows(output, columns, row, rows);
        multiply(row, tile);
        finish(output, columns, tile, row, rows);
    }
}

SAM3_INLINE IntVec broadcast_group(const uint8_t* codes) {
    int32_t group;
    __builtin_memcpy(&group, codes, sizeof group);
    return group - IntVec{};
}

// sum = a b for a whole tile of coded numbers. A group of a row's codes fills one lane, 4 bytes, in every coding; what
// differs stands in Coding:
//   Sum            of one vector
//   Weights        one vector of a panel's groups, and kWeightBytes that it takes in the panel
//   load(p)        such a vector
//   add(s, g, w)   s + the products of a row's group, in every lane, and the weights'
template <typename Coding>
SAM3_INLINE void multiply_codes(const uint8_t* a, int64_t a_stride, const uint8_t* b, int64_t groups,
                                typename Coding::Sum (&sum)[kTileRows][kTileVectors]) {
    constexpr int64_t kBytes = Coding::kWeightBytes;
    constexpr int64_t kPrefetch = 8 * kTileVectors * kBytes;  // groups ahead
    SAM3_UNROLL(kTileRows, i, SAM3_UNROLL(kTileVectors, j, sum[i][j] = typename Coding::Sum{}));
#pragma GCC unroll 4
    for (int64_t g = 0; g < groups; ++g) {
        typename Coding::Weights weights[kTileVectors];
        SAM3_UNROLL(kTileVectors, j, weights[j] = Coding::load(b + j * kBytes);
                    if (j * kBytes % 64 == 0) __builtin_prefetch(b + kPrefetch + j * kBytes));
        b += kTileVectors * kBytes;
        SAM3_UNROLL(kTileRows, i, const IntVec group = broadcast_group(a + i * a_stride);
                    SAM3_UNROLL(kTileVectors, j, sum[i][j] = Coding::add(sum[i][j], group, weights[j])));
        a += sizeof(int32_t);
    }
}

}  // namespace sam3::simd::SAM3_SIMD_VARIANT
