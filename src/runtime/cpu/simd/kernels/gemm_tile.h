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

}  // namespace sam3::simd::SAM3_SIMD_VARIANT
