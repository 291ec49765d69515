#include "runtime/cuda/early.cuh"
#include "runtime/cuda/hopper.cuh"
#include "runtime/cuda/weights.h"

#include <array>
#include <type_traits>

// A linear layer on a few rows, as a phrase's words or a decoder's boxes, on Hopper: reading the weights is all the
// work, and waiting for them all the time. A block has 32 rows, 64 columns and a part of the depth, whose weights are
// all asked for at once; the blocks of a cluster add up their parts through shared memory. Rows may be f32: they are
// rounded on the way, which spares a launch.
//
// As in attention_few_keys.cu the order of the depth does not matter: lane 4 g + t takes 16 neighbouring bytes, quarter
// t of a chunk of 64, of row g of every eight.
namespace sam3::cuda {

namespace {

constexpr int kRows = 32, kColumns = 64;  // of a block
constexpr int kDeepWarps = 4, kWideWarps = 2;
constexpr int kThreads = 32 * kDeepWarps * kWideWarps;
constexpr int kRowTiles = kRows / 16;
constexpr int kColumnTiles = kColumns / kWideWarps / 8;
constexpr int kStride = kColumns + 8;          // floats; 64 would meet the same banks in every row
constexpr int kPieces = kRows * kColumns / 4;  // results are stored in fours
constexpr int kMostPieces = kPieces / kThreads;
constexpr int kMostSplits = 8;  // blocks of a cluster that every GPU can have

struct FewRows {
    const void *x, *w, *residual;
    const float* bias;
    void* out;
    int64_t x_stride, residual_stride, out_stride;
    int rows, columns, depth;
    int chunks_each;  // of a block
    Activation activation;
    bool fours;  // residual and results can be read and written so
};

template <typename X, typename W>
struct Plan {
    static constexpr int kChunk = 64 / sizeof(W);  // elements of the depth
    static constexpr int kQuarter = kChunk / 4;
    static constexpr bool kRounds = !std::is_same_v<X, W>;
    // Chunks that a warp asks for at once: as many as there are registers for.
    static constexpr int kTogether = kRounds ? 2 : 4;
};

__device__ inline uint4 load16(const void* p) { return *static_cast<const uint4*>(p); }

// A quarter of a chunk in the type of the weights.
template <typename X, typename W>
__device__ inline uint4 load_quarter(const X* p) {
    if constexpr (std::is_same_v<X, W>) {
        return load16(p);
    } else {
        const float4 a = load4(p);
        const float4 b = load4(p + 4);
        return {pack(a.x, a.y), pack(a.z, a.w), pack(b.x, b.y), pack(b.z, b.w)};
    }
}

__device__ inline unsigned to_tf32(unsigned bits) {
    unsigned rounded;
    asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(rounded) : "f"(__uint_as_float(bits)));
    return rounded;
}
__device__ inline uint4 to_tf32(uint4 v) { return {to_tf32(v.x), to_tf32(v.y), to_tf32(v.z), to_tf32(v.w)}; }

// sums [16, 8] += rows * weights, half a chunk of the depth: 16 of bf16, 8 of f32 in TF32
template <typename W>
__device__ inline void multiply_half(float (&sums)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                                     unsigned b1) {
    if constexpr (std::is_same_v<W, bf16>) {
        const unsigned rows[4] = {a0, a1, a2, a3};
        multiply_add(sums, rows, b0, b1);
    } else {
        asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
            "%2, %3};\n"
            : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
}

// The weights of a warp's columns, of the chunks first, first + kDeepWarps, ... below end.
template <typename X, typename W>
__device__ inline void load_columns(const FewRows& a, uint4 (&columns)[Plan<X, W>::kTogether][kColumnTiles],
                                    int first_column, int first, int end, int lane) {
    using P = Plan<X, W>;
    const W* const w = static_cast<const W*>(a.w) + lane % 4 * P::kQuarter;
#pragma unroll
    for (int c = 0; c < P::kTogether; ++c)
#pragma unroll
        for (int n = 0; n < kColumnTiles; ++n) {
            const int chunk = first + c * kDeepWarps;
            const int column = first_column + n * 8 + lane / 4;
            columns[c][n] = {0, 0, 0, 0};
            if (chunk < end && column < a.columns)
                columns[c][n] = load16(w + static_cast<int64_t>(column) * a.depth + chunk * P::kChunk);
        }
}

// The product of the block's rows and a warp's columns, of which `columns` has the first, over the same chunks.
template <typename X, typename W>
__device__ inline void multiply_chunks(const FewRows& a, uint4 (&columns)[Plan<X, W>::kTogether][kColumnTiles],
                                       float (&sums)[kRowTiles][kColumnTiles][4], int first_row, int first_column,
                                       int first, int end, int lane) {
    using P = Plan<X, W>;
    constexpr int kStep = kDeepWarps * P::kTogether;
    const int g = lane / 4;
    const X* const x = static_cast<const X*>(a.x) + lane % 4 * P::kQuarter;
    for (; first < end; first += kStep) {
        uint4 rows[P::kTogether][2 * kRowTiles];
#pragma unroll
        for (int c = 0; c < P::kTogether; ++c)
#pragma unroll
            for (int m = 0; m < 2 * kRowTiles; ++m) {
                const int chunk = first + c * kDeepWarps;
                const int row = first_row + m * 8 + g;
                rows[c][m] = {0, 0, 0, 0};
                if (chunk < end && row < a.rows)
                    rows[c][m] = load_quarter<X, W>(x + row * a.x_stride + chunk * P::kChunk);
            }
#pragma unroll
        for (int c = 0; c < P::kTogether; ++c) {
            if constexpr (std::is_same_v<W, float>) {
#pragma unroll
                for (int n = 0; n < kColumnTiles; ++n) columns[c][n] = to_tf32(columns[c][n]);
#pragma unroll
                for (int m = 0; m < 2 * kRowTiles; ++m) rows[c][m] = to_tf32(rows[c][m]);
            }
#pragma unroll
            for (int m = 0; m < kRowTiles; ++m) {
                const uint4 low = rows[c][2 * m];
                const uint4 high = rows[c][2 * m + 1];
#pragma unroll
                for (int n = 0; n < kColumnTiles; ++n) {
                    const uint4 b = columns[c][n];
                    multiply_half<W>(sums[m][n], low.x, high.x, low.y, high.y, b.x, b.y);
                    multiply_half<W>(sums[m][n], low.z, high.z, low.w, high.w, b.z, b.w);
                }
            }
        }
        if (first + kStep < end) load_columns<X, W>(a, columns, first_column, first + kStep, end, lane);
    }
}

// Brings a block's weights to the cache, half a line of it a chunk.
template <typename W>
__device__ inline void fetch_weights(const FewRows& a, int first_column, int begin, int end, int thread) {
    constexpr int kChunkBytes = 64;
    const auto* const w = static_cast<const unsigned char*>(a.w);
    const int64_t row_bytes = static_cast<int64_t>(a.depth) * sizeof(W);
    const int columns = min(kColumns, a.columns - first_column);
    const int pairs = (end - begin + 1) / 2;
    for (int i = thread; i < columns * pairs; i += kThreads) {
        const int column = i / pairs;
        const int chunk = begin + (i - column * pairs) * 2;
        const auto* const at = w + (first_column + column) * row_bytes + chunk * kChunkBytes;
        asm volatile("prefetch.global.L2 [%0];\n" ::"l"(at));
    }
}

// Four results of a row: where they go, and what is added to them, which is read long before it is needed.
template <typename Out>
struct Piece {
    int row = 0, column = 0, count = 0;  // count: 0 behind the end
    float bias[4] = {}, residual[4] = {};

    __device__ void load(const FewRows& a, int first_row, int first_column, int piece) {
        row = first_row + piece / (kColumns / 4);
        column = first_column + piece % (kColumns / 4) * 4;
        count = row < a.rows ? min(4, a.columns - column) : 0;
        const Out* const more = static_cast<const Out*>(a.residual) + row * a.residual_stride + column;
        if (a.fours && count > 0 && a.residual != nullptr) {
            const float4 four = load4(more);
            residual[0] = four.x, residual[1] = four.y, residual[2] = four.z, residual[3] = four.w;
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i >= count) continue;
            if (a.bias != nullptr) bias[i] = a.bias[column + i];
            if (!a.fours && a.residual != nullptr) residual[i] = to_float(more[i]);
        }
    }
    __device__ void store(const FewRows& a, float4 sum) const {
        if (count <= 0) return;
        Out* const to = static_cast<Out*>(a.out) + row * a.out_stride + column;
        const float result[4] = {activate(sum.x + bias[0], a.activation) + residual[0],
                                 activate(sum.y + bias[1], a.activation) + residual[1],
                                 activate(sum.z + bias[2], a.activation) + residual[2],
                                 activate(sum.w + bias[3], a.activation) + residual[3]};
        if (a.fours) {
            store4(to, {result[0], result[1], result[2], result[3]});
            return;
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (i < count) to[i] = from_float<Out>(result[i]);
    }
};

template <typename X, typename W, typename Out>
__global__ void __launch_bounds__(kThreads) few_rows_kernel(FewRows a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    __shared__ __align__(16) float parts[kDeepWarps][kRows][kStride];
    const int thread = static_cast<int>(threadIdx.x);
    const int lane = thread % 32;
    const int deep = thread / 32 % kDeepWarps;
    const int wide = thread / 32 / kDeepWarps;
    const int rank = static_cast<int>(blockIdx.x);
    const int splits = static_cast<int>(gridDim.x);
    const int first_column = static_cast<int>(blockIdx.y) * kColumns;
    const int first_row = static_cast<int>(blockIdx.z) * kRows;

    const int begin = rank * a.chunks_each;
    const int end = min(begin + a.chunks_each, a.depth / Plan<X, W>::kChunk);
    let_next_start();
    // Nobody else writes weights: they can be on their way while an earlier kernel makes the rows.
    const int own_column = first_column + wide * kColumnTiles * 8;
    uint4 columns[Plan<X, W>::kTogether][kColumnTiles];
    load_columns<X, W>(a, columns, own_column, begin + deep, end, lane);
    if (end - begin > kDeepWarps * Plan<X, W>::kTogether) fetch_weights<W>(a, first_column, begin, end, thread);
    wait_for_earlier();

    // Each block of the cluster stores a part of the results.
    const int pieces = kPieces / splits;
    Piece<Out> own[kMostPieces];
#pragma unroll
    for (int i = 0; i < kMostPieces; ++i)
        if (thread + i * kThreads < pieces)
            own[i].load(a, first_row, first_column, rank * pieces + thread + i * kThreads);

    float sums[kRowTiles][kColumnTiles][4] = {};
    multiply_chunks<X, W>(a, columns, sums, first_row, own_column, begin + deep, end, lane);
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int n = 0; n < kColumnTiles; ++n)
                store_pair(&parts[deep][m * 16 + half * 8 + lane / 4][(wide * kColumnTiles + n) * 8 + lane % 4 * 2],
                           sums[m][n][2 * half], sums[m][n][2 * half + 1]);
    __syncthreads();

    const auto place = [](int piece) { return piece / (kColumns / 4) * kStride + piece % (kColumns / 4) * 4; };
#pragma unroll
    for (int i = 0; i < kMostPieces; ++i) {
        float* const at = &parts[0][0][0] + place(thread + i * kThreads);
        float4 sum = load4(at);
#pragma unroll
        for (int part = 1; part < kDeepWarps; ++part) sum = plus(sum, load4(at + part * kRows * kStride));
        store4(at, sum);
    }
    if (splits > 1)
        meet_cluster();
    else
        __syncthreads();

    const unsigned shared = shared_address(parts);
#pragma unroll
    for (int i = 0; i < kMostPieces; ++i) {
        if (thread + i * kThreads >= pieces) continue;
        const unsigned at = shared + place(rank * pieces + thread + i * kThreads) * 4;
        float4 part[kMostSplits];
#pragma unroll
        for (int s = 0; s < kMostSplits; ++s)
            if (s < splits) part[s] = load4_from_cluster(address_in(at, s));
        float4 sum = part[0];
#pragma unroll
        for (int s = 1; s < kMostSplits; ++s)
            if (s < splits) sum = plus(sum, part[s]);
        own[i].store(a, sum);
    }
    if (splits > 1) meet_cluster();  // a block's memory must not go while others read it
#else
    (void)a;
#endif
}

// How many clusters of 1, 2, 4 and 8 blocks the GPU runs at once: fewer than it has multiprocessors for, because the
// blocks of one must lie close together.
template <typename X, typename W, typename Out>
int clusters_at_once(int splits) {
    static const std::array<int, 4> known = [] {
        std::array<int, 4> counts{};
        for (size_t i = 0; i < counts.size(); ++i) {
            KernelLaunch one(dim3(1U << i), kThreads, 0, nullptr);
            one.in_clusters(1U << i);
            check(cudaOccupancyMaxActiveClusters(&counts[i], few_rows_kernel<X, W, Out>, &one.config()), "linear");
        }
        return counts;
    }();
    size_t i = 0;
    while (1 << i < splits) ++i;
    return known[i];
}

// Parts of the depth, a power of two: as many blocks as run at once, with something to do for each warp. For one tile
// of rows all weights that a warp has come at once in any case, and blocks need not wait for each other.
template <typename X, typename W, typename Out>
int splits_for(int64_t blocks, int chunks, int64_t row_tiles) {
    if (row_tiles == 1 && chunks <= kDeepWarps * Plan<X, W>::kTogether) return 1;
    int splits = 1;
    while (splits < kMostSplits && blocks <= clusters_at_once<X, W, Out>(splits * 2) &&
           chunks >= splits * 2 * kDeepWarps)
        splits *= 2;
    return splits;
}

template <typename X, typename W, typename Out>
void start(const ExecContext& context, FewRows a) {
    const int64_t columns = blocks_for(a.columns, kColumns);
    const int64_t rows = blocks_for(a.rows, kRows);
    const int chunks = a.depth / Plan<X, W>::kChunk;
    const auto splits = static_cast<unsigned>(splits_for<X, W, Out>(columns * rows, chunks, rows));
    a.chunks_each = static_cast<int>(blocks_for(chunks, splits));
    const dim3 grid(splits, static_cast<unsigned>(columns), static_cast<unsigned>(rows));
    launch(context, "linear", [&](cudaStream_t stream) {
        KernelLaunch(grid, kThreads, 0, stream)
            .in_clusters(splits)
            .early(context)
            .start("linear", few_rows_kernel<X, W, Out>, a);
    });
}

template <typename Out>
void start_for(const ExecContext& context, const FewRows& a, DType x, DType w) {
    if (w == DType::f32)
        start<float, float, Out>(context, a);
    else if (x == DType::f32)
        start<float, bf16, Out>(context, a);
    else
        start<bf16, bf16, Out>(context, a);
}

bool in_steps(const Tensor& x, size_t bytes) {
    return reinterpret_cast<uintptr_t>(x.raw()) % bytes == 0 &&
           (x.dim(0) == 1 || static_cast<size_t>(x.row_stride()) * size_of(x.dtype()) % bytes == 0);
}

}  // namespace

bool few_rows_take(const ExecContext& context, const Tensor& x, const CudaLinear& weights) {
    constexpr int64_t kMostRows = 256;
    constexpr int64_t kMostBytes = 12 << 20;  // of weights, read once for every 32 rows; beyond, others are quicker
    const DType w = weights.weight.dtype();
    const bool types = w == DType::bf16 ? x.dtype() == DType::bf16 || x.dtype() == DType::f32
                                        : w == DType::f32 && x.dtype() == DType::f32 &&
                                              context.precision != Precision::f32;  // TF32 is allowed
    const int64_t bytes = weights.out_features * weights.in_features * static_cast<int64_t>(size_of(w));
    return types && device_of(context).is_hopper() && x.dim(0) <= kMostRows &&
           blocks_for(x.dim(0), kRows) * bytes <= kMostBytes &&
           weights.in_features % (64 / static_cast<int64_t>(size_of(w))) == 0 && in_steps(x, 16) &&
           in_steps(weights.weight, 16);
}

void multiply_few_rows(const ExecContext& context, const Tensor& x, const CudaLinear& weights, Activation activation,
                       const Tensor& residual, const Tensor& out) {
    FewRows a{};
    a.x = x.raw();
    a.w = weights.weight.raw();
    a.residual = residual ? residual.raw() : nullptr;
    a.bias = weights.bias ? weights.bias.data<float>() : nullptr;
    a.out = out.raw();
    a.x_stride = x.row_stride();
    a.residual_stride = residual ? residual.row_stride() : 0;
    a.out_stride = out.row_stride();
    a.rows = static_cast<int>(x.dim(0));
    a.columns = static_cast<int>(weights.out_features);
    a.depth = static_cast<int>(weights.in_features);
    a.activation = activation;
    const size_t four = 4 * size_of(out.dtype());
    a.fours = a.columns % 4 == 0 && in_steps(out, four) && (!residual || in_steps(residual, four));
    if (out.dtype() == DType::f32)
        start_for<float>(context, a, x.dtype(), weights.weight.dtype());
    else
        start_for<bf16>(context, a, x.dtype(), weights.weight.dtype());
}

}  // namespace sam3::cuda
