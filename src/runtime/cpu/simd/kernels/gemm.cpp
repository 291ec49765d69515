#include "runtime/cpu/simd/gemm.h"

#include "runtime/cpu/simd/epilogue.h"
#include "runtime/cpu/simd/kernels/functions.h"

namespace sam3::simd::SAM3_SIMD_VARIANT {

namespace {

// Accumulators plus one row of B plus one element of A fill the registers.
constexpr int kTileVectors = kRegisters == 32 ? 4 : 2;
constexpr int kTileRows = static_cast<int>(kGemmTileRows);
constexpr int64_t kTileColumns = static_cast<int64_t>(kTileVectors) * kLanes;

// Calls f with Index<0> ... Index<N - 1>: with constant indices an array of vectors stays in registers.
template <int I>
struct Index {
    static constexpr int value = I;
};
template <int N, int I = 0, typename Function>
SAM3_INLINE void unroll(const Function& f) {
    if constexpr (I < N) {
        f(Index<I>{});
        unroll<N, I + 1>(f);
    }
}
#define SAM3_UNROLL(count, index, ...) \
    unroll<count>([&]<int index>(Index<index>) __attribute__((always_inline)) { __VA_ARGS__; })

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
    bool whole[kTileVectors];  // all lanes exist and lie side by side

    explicit Columns(const GemmPanel& panel) {
        const GemmOutput& output = *panel.output;
        for (int j = 0; j < kTileVectors; ++j) {
            const int64_t column = panel.column + j * kLanes;
            offset[j] = column / output.split * output.split_stride + column % output.split;
            whole[j] = (j + 1) * kLanes <= panel.columns && column % output.split + kLanes <= output.split;
        }
    }
};

template <Epilogue Activation>
void finish_tile(const GemmPanel& panel, const Columns& columns, const float* tile, int64_t first_row, int64_t rows) {
    const GemmOutput& o = *panel.output;
    const int64_t vectors = (panel.columns + kLanes - 1) / kLanes;
    for (int64_t i = 0; i < rows; ++i) {
        float* out = o.out + o.row_offsets[first_row + i];
        const float* residual = o.residual == nullptr ? nullptr : o.residual + o.residual_offsets[first_row + i];
        for (int64_t j = 0; j < vectors; ++j) {
            const int64_t column = panel.column + j * kLanes;
            const int64_t left = panel.columns - j * kLanes;
            const int64_t lanes = left < kLanes ? left : kLanes;
            Vec v = load(tile + i * kTileColumns + j * kLanes) * o.alpha;
            if (o.bias != nullptr)
                v += lanes == kLanes ? load(o.bias + column) : load_first(o.bias + column, lanes);
            v = activate<Activation>(v);
            if (columns.whole[j]) {
                if (residual != nullptr) v += load(residual + columns.offset[j]);
                store(out + columns.offset[j], v);
                continue;
            }
            for (int64_t lane = 0; lane < lanes; ++lane) {
                const int64_t c = column + lane;
                const int64_t at = c / o.split * o.split_stride + c % o.split;
                out[at] = v[lane] + (residual != nullptr ? residual[at] : 0.0F);
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

// Turns rows into columns: lane l of rows[i] becomes lane i of rows[l]. Swaps ever smaller blocks.
SAM3_INLINE void transpose(Vec (&rows)[kLanes]) {
    const IntVec lane = lane_indices();
    for (int step = kLanes / 2; step > 0; step /= 2) {
        const IntVec upper = (lane & step) != 0;
        const IntVec low = upper ? lane - step + kLanes : lane;
        const IntVec high = upper ? lane + kLanes : lane + step;
        for (int i = 0; i < kLanes; ++i) {
            if ((i & step) != 0) continue;
            const Vec a = rows[i];
            const Vec b = rows[i + step];
            rows[i] = __builtin_shuffle(a, b, low);
            rows[i + step] = __builtin_shuffle(a, b, high);
        }
    }
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
                for (int i = 0; i < kLanes; ++i) rows[i] = load(in + (c + i) * in_stride + k);
                transpose(rows);
                for (int i = 0; i < kLanes; ++i) store(out + (k + i) * width + c, rows[i]);
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
