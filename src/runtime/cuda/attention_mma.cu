#include "runtime/cuda/attention.cuh"
#include "runtime/cuda/mma.cuh"

#include <algorithm>

// Attention on tensor cores, without the matrix of scores in memory: a block holds some queries and walks over the keys
// in tiles, keeping a running maximum and sum for each query (arXiv 2205.14135, 2307.08691).
namespace sam3::cuda {

namespace {

struct MmaArgs {
    const bf16 *q, *k, *v;
    void* out;       // Out, or float partial sums where the keys are split
    float2* states;  // highest score and sum of each partial row
    TokenMap q_map, k_map, v_map, out_map;
    AttentionShape shape;
    ScoreTerms terms;
    int splits, tiles_each;
    float scale_log2;
};

template <int kSize, int kTiles>  // padded head size; tiles of 16 queries a warp
struct Layout {
    static constexpr int kChunks = kSize / 8;
    static constexpr int kKeys = kSize >= 256 ? 32 : 64;  // a step
    static constexpr int kStages = 2;
    static constexpr int kTile = kKeys * kChunks;  // 16-byte pieces

    static constexpr size_t bytes(int warps) {
        const int queries = warps * kTiles * 16 * kChunks;
        return static_cast<size_t>(std::max(queries, 2 * kStages * kTile)) * 16;
    }
};

template <int kChunks>
__device__ inline void load_rows(unsigned shared, const bf16* base, const TokenMap& map, int first, int count,
                                 int limit, int used_chunks, int thread, int threads) {
    for (int i = thread; i < count * kChunks; i += threads) {
        const int row = i / kChunks;
        const int chunk = i % kChunks;
        const bool valid = first + row < limit && chunk < used_chunks;
        const bf16* from = base + (valid ? map.token(first + row) + chunk * 8 : 0);
        copy_async(shared + swizzled<kChunks>(row, chunk) * 16, from, valid);
    }
}

constexpr float kLog2E = 1.44269504088896340736F;

// Scales the scores of one row, adds what belongs to them, and hides the keys that it must not see.
template <int kTerms, int kKeyTiles>
__device__ inline void add_terms(float (&score)[kKeyTiles][4], int half, const MmaArgs& a, int image, int head, int row,
                                 int first_key, unsigned hidden_keys, int lane) {
    const ScoreTerms& t = a.terms;
    const int query = min(row, a.shape.queries - 1);  // of rows beyond the end nothing is kept
    const int own = first_key + lane % 4 * 2;
    float line[2] = {};
    const float* columns = nullptr;
    int next_line = 0;
    if constexpr (kTerms == ScoreTerms::grid) {
        // A tile of keys lies in two lines of the grid at most, or in as many as it has width for.
        const int first_line = own / t.grid_width;
        next_line = (first_line + 1) * t.grid_width;
        const float* lines = t.rows + image * t.rows_batch + head * t.rows_head + query * t.rows_query;
        const int lines_in_all = (a.shape.keys + t.grid_width - 1) / t.grid_width;
        line[0] = lines[min(first_line, lines_in_all - 1)];
        line[1] = lines[min(first_line + 1, lines_in_all - 1)];
        columns = t.cols + image * t.cols_batch + head * t.cols_head + query * t.cols_query -
                  static_cast<int64_t>(first_line) * t.grid_width;
    }
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
        const int key = own + n * 8;
        float added[2] = {};
        if constexpr (kTerms == ScoreTerms::grid) {
            const bool second = key >= next_line;
            const int at = min(key, a.shape.keys - 2) - (second ? t.grid_width : 0);
            const float2 pair = *reinterpret_cast<const float2*>(columns + at);
            added[0] = pair.x + line[second ? 1 : 0];
            added[1] = pair.y + line[second ? 1 : 0];
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float& x = score[n][2 * half + i];
            if constexpr (kTerms == ScoreTerms::any)
                added[i] = key + i < a.shape.keys ? t.added(image, head, query, key + i) : 0.0F;
            x = x * a.scale_log2 + added[i] * kLog2E;
            bool hidden = (hidden_keys >> (2 * n + i) & 1U) != 0;
            if constexpr (kTerms == ScoreTerms::mask || kTerms == ScoreTerms::any)
                hidden = hidden || t.hidden_from(query, key + i);
            if (hidden) x = -INFINITY;
        }
    }
}

// A bit for each key of a thread that no query sees: those behind the end, and those of the mask.
template <int kTerms, int kKeyTiles>
__device__ inline unsigned hidden_keys_of(const MmaArgs& a, int image, int first_key, int lane) {
    unsigned bits = 0;
    if (kTerms == ScoreTerms::mask || kTerms == ScoreTerms::any || first_key + kKeyTiles * 8 > a.shape.keys) {
#pragma unroll
        for (int n = 0; n < kKeyTiles; ++n)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int key = first_key + lane % 4 * 2 + n * 8 + i;
                bool hidden = key >= a.shape.keys;
                if constexpr (kTerms == ScoreTerms::mask || kTerms == ScoreTerms::any)
                    hidden = hidden || a.terms.hidden_key(image, key);
                bits |= (hidden ? 1U : 0U) << (2 * n + i);
            }
    }
    return bits;
}

template <int kSize, int kTiles, int kWarps, int kTerms, bool kSplit, typename Out>
__global__ void __launch_bounds__(32 * kWarps) mma_kernel(MmaArgs a) {
    using L = Layout<kSize, kTiles>;
    constexpr int kChunks = L::kChunks;
    constexpr int kThreads = 32 * kWarps;
    constexpr int kRows = kWarps * kTiles * 16;
    constexpr int kKeyTiles = L::kKeys / 8;
    constexpr int kSteps = kSize / 16;
    constexpr int kValueTiles = kSize / 8;
    extern __shared__ __align__(128) unsigned char memory[];
    const unsigned shared = shared_address(memory);
    const auto k_tile = [&](int stage) { return shared + stage * 2 * L::kTile * 16; };
    const auto v_tile = [&](int stage) { return shared + (stage * 2 + 1) * L::kTile * 16; };

    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp = thread / 32;
    const int head = blockIdx.y;
    const int unit = blockIdx.z;
    const int image = unit / a.shape.per_image;
    const int block = kSplit ? blockIdx.x / a.splits : blockIdx.x;
    const int part = kSplit ? blockIdx.x % a.splits : 0;
    const int first_query = block * kRows;
    const int used = a.shape.head_size / 8;
    const int used_of_values = a.shape.value_size / 8;
    const bf16* const keys = a.k + a.k_map.origin(unit, head);
    const bf16* const values = a.v + a.v_map.origin(unit, head);

    // Queries go through the keys' memory into registers.
    load_rows<kChunks>(shared, a.q + a.q_map.origin(unit, head), a.q_map, first_query, kRows, a.shape.queries, used,
                       thread, kThreads);
    commit_copies();
    wait_for_copies<0>();
    __syncthreads();
    unsigned query[kTiles][kSteps][4];
#pragma unroll
    for (int m = 0; m < kTiles; ++m)
#pragma unroll
        for (int s = 0; s < kSteps; ++s)
            load_matrices(query[m][s],
                          shared + swizzled<kChunks>((warp * kTiles + m) * 16 + lane % 16, s * 2 + lane / 16) * 16);
    __syncthreads();

    float sums[kTiles][kValueTiles][4] = {};
    float highest[kTiles][2];
    float total[kTiles][2] = {};
#pragma unroll
    for (int m = 0; m < kTiles; ++m) highest[m][0] = highest[m][1] = -INFINITY;

    const int tiles = (a.shape.keys + L::kKeys - 1) / L::kKeys;
    const int begin = kSplit ? part * a.tiles_each : 0;
    const int end = kSplit ? min(tiles, begin + a.tiles_each) : tiles;
    const auto fetch = [&](int tile) {
        const int stage = tile % 2;
        load_rows<kChunks>(k_tile(stage), keys, a.k_map, tile * L::kKeys, L::kKeys, a.shape.keys, used, thread,
                           kThreads);
        load_rows<kChunks>(v_tile(stage), values, a.v_map, tile * L::kKeys, L::kKeys, a.shape.keys, used_of_values,
                           thread, kThreads);
        commit_copies();
    };
    if (begin < end) fetch(begin);
    for (int tile = begin; tile < end; ++tile) {
        if (tile + 1 < end) {
            fetch(tile + 1);
            wait_for_copies<1>();
        } else {
            wait_for_copies<0>();
        }
        __syncthreads();
        const unsigned k_at = k_tile(tile % 2);
        const unsigned v_at = v_tile(tile % 2);

        float score[kTiles][kKeyTiles][4] = {};
#pragma unroll
        for (int s = 0; s < kSteps; ++s)
#pragma unroll
            for (int n = 0; n < kKeyTiles / 2; ++n) {
                unsigned b[4];
                load_matrices(b,
                              k_at + swizzled<kChunks>(n * 16 + lane / 16 * 8 + lane % 8, s * 2 + lane / 8 % 2) * 16);
#pragma unroll
                for (int m = 0; m < kTiles; ++m) {
                    multiply_add(score[m][2 * n], query[m][s], b[0], b[1]);
                    multiply_add(score[m][2 * n + 1], query[m][s], b[2], b[3]);
                }
            }

        const int first_key = tile * L::kKeys;
        const unsigned hidden_keys = hidden_keys_of<kTerms, kKeyTiles>(a, image, first_key, lane);
#pragma unroll
        for (int m = 0; m < kTiles; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                add_terms<kTerms, kKeyTiles>(score[m], half, a, image, head,
                                             first_query + (warp * kTiles + m) * 16 + lane / 4 + half * 8, first_key,
                                             hidden_keys, lane);

#pragma unroll
        for (int m = 0; m < kTiles; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float top = highest[m][half];
#pragma unroll
                for (int n = 0; n < kKeyTiles; ++n)
                    top = fmaxf(top, fmaxf(score[m][n][2 * half], score[m][n][2 * half + 1]));
                top = fmaxf(top, __shfl_xor_sync(0xffffffffU, top, 1));
                top = fmaxf(top, __shfl_xor_sync(0xffffffffU, top, 2));
                const float base = top == -INFINITY ? 0.0F : top;
                const float keep = exp2_fast(highest[m][half] - base);
                highest[m][half] = top;
                float sum = 0;
#pragma unroll
                for (int n = 0; n < kKeyTiles; ++n)
#pragma unroll
                    for (int i = 2 * half; i < 2 * half + 2; ++i) {
                        score[m][n][i] = exp2_fast(score[m][n][i] - base);
                        sum += score[m][n][i];
                    }
                total[m][half] = total[m][half] * keep + sum;
#pragma unroll
                for (int d = 0; d < kValueTiles; ++d) {
                    sums[m][d][2 * half] *= keep;
                    sums[m][d][2 * half + 1] *= keep;
                }
            }

#pragma unroll
        for (int n = 0; n < kKeyTiles / 2; ++n) {
            unsigned weight[kTiles][4];
#pragma unroll
            for (int m = 0; m < kTiles; ++m) {
                weight[m][0] = pack(score[m][2 * n][0], score[m][2 * n][1]);
                weight[m][1] = pack(score[m][2 * n][2], score[m][2 * n][3]);
                weight[m][2] = pack(score[m][2 * n + 1][0], score[m][2 * n + 1][1]);
                weight[m][3] = pack(score[m][2 * n + 1][2], score[m][2 * n + 1][3]);
            }
#pragma unroll
            for (int d = 0; d < kValueTiles / 2; ++d) {
                unsigned b[4];
                load_matrices_transposed(
                    b, v_at + swizzled<kChunks>(n * 16 + lane / 8 % 2 * 8 + lane % 8, d * 2 + lane / 16) * 16);
#pragma unroll
                for (int m = 0; m < kTiles; ++m) {
                    multiply_add(sums[m][2 * d], weight[m], b[0], b[1]);
                    multiply_add(sums[m][2 * d + 1], weight[m], b[2], b[3]);
                }
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int m = 0; m < kTiles; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float sum = total[m][half];
            sum += __shfl_xor_sync(0xffffffffU, sum, 1);
            sum += __shfl_xor_sync(0xffffffffU, sum, 2);
            const int row = first_query + (warp * kTiles + m) * 16 + lane / 4 + half * 8;
            if (row >= a.shape.queries) continue;
            const float factor = sum > 0 ? 1.0F / sum : 0.0F;
            Out* to = nullptr;
            if constexpr (kSplit) {
                const int64_t index =
                    ((static_cast<int64_t>(unit) * a.shape.heads + head) * a.shape.queries + row) * a.splits + part;
                to = static_cast<Out*>(a.out) + index * a.shape.value_size;
                if (lane % 4 == 0) a.states[index] = {highest[m][half], sum};
            } else {
                to = static_cast<Out*>(a.out) + a.out_map.origin(unit, head) + a.out_map.token(row);
            }
#pragma unroll
            for (int d = 0; d < kValueTiles; ++d) {
                const int column = d * 8 + lane % 4 * 2;
                if (column < a.shape.value_size)
                    store_pair(to + column, sums[m][d][2 * half] * factor, sums[m][d][2 * half + 1] * factor);
            }
        }
}

template <int kSize, int kTiles, int kWarps, int kTerms, bool kSplit, typename Out>
void start(const MmaArgs& a, cudaStream_t stream) {
    const auto kernel = mma_kernel<kSize, kTiles, kWarps, kTerms, kSplit, Out>;
    constexpr size_t kBytes = Layout<kSize, kTiles>::bytes(kWarps);
    static const cudaError_t raised =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kBytes));
    check(raised, "attention");
    const int64_t blocks = blocks_for(a.shape.queries, kWarps * kTiles * 16) * a.splits;
    kernel<<<dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(a.shape.heads),
                  static_cast<unsigned>(a.shape.units)),
             32 * kWarps, kBytes, stream>>>(a);
}

template <int kSize, int kTiles, int kWarps, bool kSplit, typename Out>
void start_for(const MmaArgs& a, cudaStream_t stream) {
    switch (a.terms.kind()) {
        case ScoreTerms::none: return start<kSize, kTiles, kWarps, ScoreTerms::none, kSplit, Out>(a, stream);
        case ScoreTerms::mask: return start<kSize, kTiles, kWarps, ScoreTerms::mask, kSplit, Out>(a, stream);
        case ScoreTerms::grid:
            // Wide enough that a tile of keys meets two lines at most, and an even number of keys.
            if (a.terms.grid_width >= Layout<kSize, kTiles>::kKeys && a.shape.keys % 2 == 0)
                return start<kSize, kTiles, kWarps, ScoreTerms::grid, kSplit, Out>(a, stream);
            [[fallthrough]];
        case ScoreTerms::any: return start<kSize, kTiles, kWarps, ScoreTerms::any, kSplit, Out>(a, stream);
    }
}

// How many blocks share a query's keys, so that few queries fill the GPU too.
int splits_for(const AttentionShape& shape, int rows, int step, int multiprocessors) {
    const int64_t blocks = blocks_for(shape.queries, rows) * shape.heads * shape.units;
    const int64_t tiles = blocks_for(shape.keys, step);
    if (blocks * 2 > multiprocessors || tiles < 8) return 1;
    return static_cast<int>(std::clamp<int64_t>(2 * multiprocessors / blocks, 1, std::max<int64_t>(1, tiles / 4)));
}

template <int kSize, int kTiles, int kWarps, typename Out>
void attend(const ExecContext& context, MmaArgs a, const Tensor& out) {
    using L = Layout<kSize, kTiles>;
    a.splits = splits_for(a.shape, kWarps * kTiles * 16, L::kKeys, device_of(context).multiprocessors());
    a.tiles_each = static_cast<int>(blocks_for(blocks_for(a.shape.keys, L::kKeys), a.splits));
    a.splits = static_cast<int>(blocks_for(blocks_for(a.shape.keys, L::kKeys), a.tiles_each));
    if (a.splits == 1) {
        launch(context, "attention",
               [&](cudaStream_t stream) { start_for<kSize, kTiles, kWarps, false, Out>(a, stream); });
        return;
    }
    const SplitRows parts(context, a.shape, a.splits);
    a.out = parts.sums.raw();
    a.states = static_cast<float2*>(parts.states.raw());
    launch(context, "attention",
           [&](cudaStream_t stream) { start_for<kSize, kTiles, kWarps, true, float>(a, stream); });
    join_rows(context, parts, a.shape, a.out_map, out);
}

template <int kSize, int kTiles, int kWarps>
void attend_to(const ExecContext& context, const MmaArgs& a, const Tensor& out) {
    if (out.dtype() == DType::f32)
        attend<kSize, kTiles, kWarps, float>(context, a, out);
    else
        attend<kSize, kTiles, kWarps, bf16>(context, a, out);
}

bool by_eights(const Tensor& x) {
    bool aligned = reinterpret_cast<uintptr_t>(x.raw()) % 16 == 0;
    for (int i = 0; i + 1 < x.rank(); ++i) aligned = aligned && (x.dim(i) == 1 || x.stride(i) % 8 == 0);
    return aligned;
}

}  // namespace

bool mma_takes(const AttentionShape& shape, const Tensor& q, const Tensor& k, const Tensor& v) {
    return shape.head_size % 8 == 0 && shape.head_size <= 256 && shape.value_size % 8 == 0 &&
           shape.value_size <= shape.head_size && by_eights(q) && by_eights(k) && by_eights(v);
}

void attention_mma(const ExecContext& context, const AttentionArgs& args, const AttentionShape& shape,
                   const ScoreTerms& terms, const Tensor& q, const Tensor& k, const Tensor& v) {
    MmaArgs a{};
    a.q = q.data<bf16>();
    a.k = k.data<bf16>();
    a.v = v.data<bf16>();
    a.out = args.out.raw();
    a.q_map = token_map(q, args.heads, args.window);
    a.k_map = token_map(k, args.heads, args.window);
    a.v_map = token_map(v, args.heads, args.window);
    a.out_map = token_map(args.out, args.heads, args.window);
    a.shape = shape;
    a.terms = terms;
    a.scale_log2 = shape.scale * kLog2E;
    if (shape.head_size <= 16)
        attend_to<16, 2, 4>(context, a, args.out);
    else if (shape.head_size <= 32)
        attend_to<32, 2, 4>(context, a, args.out);
    else if (shape.head_size <= 64 && shape.queries % 96 == 0)
        attend_to<64, 2, 3>(context, a, args.out);
    else if (shape.head_size <= 64)
        attend_to<64, 2, 4>(context, a, args.out);
    else if (shape.head_size <= 128)
        attend_to<128, 1, 4>(context, a, args.out);
    else
        attend_to<256, 1, 4>(context, a, args.out);
}

}  // namespace sam3::cuda
