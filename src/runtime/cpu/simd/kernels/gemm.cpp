#include "runtime/cpu/simd/gemm.h"

#include "runtime/cpu/simd/epilogue.h"
#include "runtime/cpu/simd/kernels/functions.h"
#include "runtime/cpu/simd/unroll.h"

namespace sam3::simd::SAM3_SIMD_VARIANT {

namespace {

// Accumulators plus one row of B plus one element of A fill the registers.
constexpr int kTileVectors = kRegisters == 32 ? 4 : 2;
constexpr int kTileRows = static_cast<int>(kGemmTileRows);
constexpr int64_t kTileColumns = static_cast<int64_t>(kTileVectors) * kLanes;

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

// Where a panel's vectors land in a row of the output.
struct Columns {
    int64_t offset[kTileVectors];
    int64_t lanes[kTileVectors];  // that exist; 0 beyond the panel
    bool together[kTileVectors];  // the lanes lie side by side
    Vec bias[kTileVectors];

    explicit Columns(const GemmPanel& panel) {
        const int64_t split = panel.output->split;
        for (int j = 0; j < kTileVectors; ++j) {
            const int64_t column = panel.column + j * kLanes;
            const int64_t left = panel.columns - j * kLanes;
            offset[j] = column / split * panel.output->split_stride + column % split;
            lanes[j] = left < 0 ? 0 : (left < kLanes ? left : kLanes);
            together[j] = column % split <= split - lanes[j];
            bias[j] = panel.output->bias == nullptr ? Vec{} : load_first(panel.output->bias + column, lanes[j]);
        }
    }
};

// The rare vector that crosses from one of the output's segments into the next.
void store_apart(const GemmOutput& o, int64_t column, int64_t lanes, Vec v, const float* residual, float* out) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
        const int64_t c = column + lane;
        const int64_t at = c / o.split * o.split_stride + c % o.split;
        out[at] = v[lane] + (residual != nullptr ? residual[at] : 0.0F);
    }
}

template <Epilogue Activation>
void finish_tile(const GemmPanel& panel, const Columns& columns, const float* tile, int64_t first_row, int64_t rows) {
    const GemmOutput& o = *panel.output;
    const int64_t vectors = (panel.columns + kLanes - 1) / kLanes;
    for (int64_t i = 0; i < rows; ++i) {
        float* out = o.out + o.row_offsets[first_row + i];
        const float* residual = o.residual == nullptr ? nullptr : o.residual + o.residual_offsets[first_row + i];
        for (int64_t j = 0; j < vectors; ++j) {
            const int64_t lanes = columns.lanes[j];
            const int64_t at = columns.offset[j];
            Vec v = load(tile + i * kTileColumns + j * kLanes) * o.alpha + columns.bias[j];
            v = activate<Activation>(v);
            if (!columns.together[j]) {
                store_apart(o, panel.column + j * kLanes, lanes, v, residual, out);
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

using FinishTile = void (*)(const GemmPanel&, const Columns&, const float*, int64_t, int64_t);

FinishTile finish_for(Epilogue activation) {
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

void prefetch_rows(const GemmPanel& panel, const Columns& columns, int64_t first_row, int64_t rows) {
    for (int64_t i = 0; i < rows; ++i) {
        const float* out = panel.output->out + panel.output->row_offsets[first_row + i];
        for (int64_t j = 0; j * kLanes < panel.columns; ++j) __builtin_prefetch(out + columns.offset[j], 1);
    }
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
    const Columns columns(panel);
    const int64_t vectors = (panel.columns + kLanes - 1) / kLanes;
    const FinishTile finish = finish_for(panel.output->activation);
    for (int64_t row = 0; row < panel.rows; row += kTileRows) {
        const int64_t rows = panel.rows - row < kTileRows ? panel.rows - row : kTileRows;
        const float* a = panel.a + row * kGemmDepthStride;
        float* sums = panel.sums + row * kTileColumns;
        if (panel.last) prefetch_rows(panel, columns, row, rows);
        if (!panel.first) prefetch_sums(sums, rows);
        multiply_for(rows, vectors)(a, panel.b, panel.depth, panel.first ? nullptr : sums, panel.last ? tile : sums);
        if (panel.last) finish(panel, columns, tile, row, rows);
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
