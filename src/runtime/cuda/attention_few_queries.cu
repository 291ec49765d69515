#include "runtime/cuda/attention.cuh"
#include "runtime/cuda/early.cuh"
#include "runtime/cuda/hopper.cuh"
#include "runtime/cuda/tensor_map.h"

#include <algorithm>

// Attention of a few queries to many keys on Hopper, heads of 32, as that of a decoder's boxes to an image. The blocks
// of a cluster share the keys; each has all of its part brought to shared memory at once, and the parts of a row are
// joined through the blocks' shared memory: one launch, and nothing in between goes to global memory.
//
// Keys are taken in lines of 72, SAM 3's feature map at its usual size: then the bias of the columns is the same for
// every line and stays in registers, and that of the rows is one number a line.
namespace sam3::cuda {

namespace {

constexpr int kSize = 32;   // of a head
constexpr int kChunks = 4;  // of 16 bytes
constexpr int kLine = 72;   // keys
constexpr int kKeyTiles = kLine / 8;
constexpr int kValueTiles = kSize / 8;
constexpr int kLineBytes = kLine * kSize * 2;  // of keys, or of values
constexpr int kMostSplits = 8;                 // blocks of a cluster that every GPU can have
constexpr int kMostWarps = 7;                  // half of 13: SAM 3 has 201 queries
constexpr int kMostLines = 20;                 // of a block
constexpr int kPartStride = 40;                // floats; 32 would meet the same banks in every row
constexpr int kPartBytes = 16 * kPartStride * 4;
constexpr float kLog2E = 1.44269504088896340736F;

// Offsets in shared memory; parts of rows come to lie where the keys were.
__host__ __device__ constexpr int bytes_for(int lines) {
    const int keys = lines * 2 * kLineBytes;
    constexpr int kParts = kMostWarps * kPartBytes;
    return keys > kParts ? keys : kParts;
}
constexpr int kStatesBytes = kMostWarps * 16 * 8;
constexpr int kBarrierBytes = kMostLines * 8;

struct Bias {  // of a grid's rows or columns, in elements
    const float* data;
    int64_t image, head, query;
};

struct FewQueries {
    CUtensorMap k, v;
    const bf16* q;
    void* out;
    int64_t q_image, q_token, out_image, out_token;
    Bias rows, cols;
    int queries, keys, heads;
    int tiles, groups;                // of a block: tiles of 16 queries, and warps that share the lines of a tile
    int lines, lines_each;            // in all, of a block
    bool shared_keys, shared_values;  // by all images
    float scale_log2;
};

// sums [16, 8] += a [16, 8] * b [8, 8]
__device__ inline void multiply_add_half(float (&sums)[4], unsigned a0, unsigned a1, unsigned b) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};\n"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a0), "r"(a1), "r"(b));
}

struct RowState {
    float highest = -INFINITY, total = 0;
};

// Scores of one line and one row become weights; `line_bias` belongs to all of them. Returns what the sums so far must
// be multiplied by.
template <bool kGrid>
__device__ inline float weigh_line(float (&score)[kKeyTiles][4], const float (&cols)[kKeyTiles][4], int half,
                                   float line_bias, int keys_left, float scale_log2, int t, RowState& row) {
    float top = -INFINITY;
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float& x = score[n][2 * half + i];
            if constexpr (kGrid)
                x = x * scale_log2 + cols[n][2 * half + i];
            else
                x = n * 8 + t * 2 + i < keys_left ? x * scale_log2 : -INFINITY;
            top = fmaxf(top, x);
        }
    top = fmaxf(top, __shfl_xor_sync(0xffffffffU, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffU, top, 2));
    // A line has a key, so that this is finite.
    const float highest = fmaxf(row.highest, top + line_bias);
    const float base = highest - line_bias;
    float sum = 0;
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
            score[n][i] = exp2_fast(score[n][i] - base);
            sum += score[n][i];
        }
    const float keep = exp2_fast(row.highest - highest);
    row.total = row.total * keep + sum;
    row.highest = highest;
    return keep;
}

__device__ inline void multiply_keys(float (&score)[kKeyTiles][4], const uint4 (&query)[2], unsigned keys, int lane) {
    const unsigned first[4] = {query[0].x, query[1].x, query[0].y, query[1].y};
    const unsigned second[4] = {query[0].z, query[1].z, query[0].w, query[1].w};
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
        const uint4 key = load16_from_shared(keys + swizzled<kChunks>(n * 8 + lane / 4, lane % 4) * 16);
#pragma unroll
        for (int i = 0; i < 4; ++i) score[n][i] = 0;
        multiply_add(score[n], first, key.x, key.y);
        multiply_add(score[n], second, key.z, key.w);
    }
}

__device__ inline void multiply_values(float (&sums)[kValueTiles][4], const float (&weight)[kKeyTiles][4],
                                       unsigned values, int lane) {
#pragma unroll
    for (int m = 0; m < kKeyTiles / 2; ++m) {
        const unsigned weights[4] = {pack(weight[2 * m][0], weight[2 * m][1]), pack(weight[2 * m][2], weight[2 * m][3]),
                                     pack(weight[2 * m + 1][0], weight[2 * m + 1][1]),
                                     pack(weight[2 * m + 1][2], weight[2 * m + 1][3])};
#pragma unroll
        for (int d = 0; d < kValueTiles; d += 2) {
            unsigned b[4];
            load_matrices_transposed(
                b, values + swizzled<kChunks>(m * 16 + lane / 8 % 2 * 8 + lane % 8, d + lane / 16) * 16);
            multiply_add(sums[d], weights, b[0], b[1]);
            multiply_add(sums[d + 1], weights, b[2], b[3]);
        }
    }
    constexpr int kLast = kKeyTiles - 1;  // an odd one
    static_assert(kKeyTiles % 2 == 1 && kValueTiles == 4);
    unsigned b[4];
    load_matrices_transposed(b, values + swizzled<kChunks>(kLast * 8 + lane % 8, lane / 8) * 16);
#pragma unroll
    for (int d = 0; d < kValueTiles; ++d)
        multiply_add_half(sums[d], pack(weight[kLast][0], weight[kLast][1]), pack(weight[kLast][2], weight[kLast][3]),
                          b[d]);
}

// Adds up the parts of the block's rows that this block of the cluster stores: some lie in other blocks' memory.
template <typename Out>
__device__ inline void join_parts(const FewQueries& a, unsigned parts, unsigned states, int rank, int splits,
                                  int first_query, int head, int image) {
    constexpr int kPieces = kSize / 4;
    const int threads = static_cast<int>(blockDim.x);
    const int count = splits * a.groups;
    for (int item = rank * threads + static_cast<int>(threadIdx.x); item < a.tiles * 16 * kPieces;
         item += splits * threads) {
        const int row = item / kPieces;
        const int piece = item % kPieces;
        const int query = first_query + row;
        if (query >= a.queries) continue;
        RowState all;
        float4 sum{0.0F, 0.0F, 0.0F, 0.0F};
        constexpr int kTogether = 8;
        for (int first = 0; first < count; first += kTogether) {
            float2 state[kTogether];
            float4 part[kTogether];
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                const int place = min(first + i, count - 1);
                const int from = place / a.groups;
                const int warp = row / 16 * a.groups + (place - from * a.groups);
                state[i] = load2_from_cluster(address_in(states + (warp * 16 + row % 16) * 8, from));
                part[i] = load4_from_cluster(
                    address_in(parts + warp * kPartBytes + (row % 16 * kPartStride + piece * 4) * 4, from));
                if (first + i >= count) state[i] = {-INFINITY, 0.0F};
            }
            float highest = all.highest;
#pragma unroll
            for (int i = 0; i < kTogether; ++i) highest = fmaxf(highest, state[i].x);
            const float base = highest == -INFINITY ? 0.0F : highest;
            const float keep = exp2_fast(all.highest - base);
            all.highest = highest;
            all.total *= keep;
            sum = {sum.x * keep, sum.y * keep, sum.z * keep, sum.w * keep};
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                const float w = exp2_fast(state[i].x - base);
                all.total += w * state[i].y;
                sum = {sum.x + w * part[i].x, sum.y + w * part[i].y, sum.z + w * part[i].z, sum.w + w * part[i].w};
            }
        }
        const float f = all.total > 0 ? 1.0F / all.total : 0.0F;
        Out* const to = static_cast<Out*>(a.out) + image * a.out_image + query * a.out_token + head * kSize + piece * 4;
        store4(to, {sum.x * f, sum.y * f, sum.z * f, sum.w * f});
    }
}

// Two blocks fit a multiprocessor: clusters do not always find a free one for each of theirs.
template <bool kGrid, typename Out>
__global__ void __launch_bounds__(32 * kMostWarps, 2) few_queries_kernel(const __grid_constant__ FewQueries a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    const unsigned shared = shared_address(memory);
    const unsigned states = shared + bytes_for(a.lines_each);
    const unsigned barriers = states + kStatesBytes;
    const int rank = blockIdx.x;
    const int splits = gridDim.x;
    const int head = blockIdx.z % a.heads;
    const int image = blockIdx.z / a.heads;
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int g = lane / 4;
    const int t = lane % 4;
    const int tile = warp / a.groups;
    const int first_query = blockIdx.y * a.tiles * 16;
    const int first_line = rank * a.lines_each;
    const int lines = max(0, min(a.lines_each, a.lines - first_line));

    if (threadIdx.x == 0) {
        for (int i = 0; i < lines; ++i) init_barrier(barriers + i * 8, 1);
        publish_barriers();
    }
    __syncthreads();
    let_next_start();
    wait_for_earlier();
    if (threadIdx.x == 0)
        for (int i = 0; i < lines; ++i) {
            const unsigned to = shared + i * 2 * kLineBytes;
            const int key = (first_line + i) * kLine;
            arrive_expecting(barriers + i * 8, 2 * kLineBytes);
            copy_box(to, a.k, barriers + i * 8, 0, head, key, 0, a.shared_keys ? 0 : image);
            copy_box(to + kLineBytes, a.v, barriers + i * 8, 0, head, key, 0, a.shared_values ? 0 : image);
        }

    // Rows g and g + 8 of the tile; of rows behind the end nothing is kept.
    uint4 query[2];
    const float* const line_bias = a.rows.data + image * a.rows.image + head * a.rows.head;
    int row_bias[2] = {};  // where a row's are
    float cols[kKeyTiles][4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = min(first_query + tile * 16 + g + 8 * half, a.queries - 1);
        query[half] = *reinterpret_cast<const uint4*>(a.q + image * a.q_image + row * a.q_token + head * kSize + t * 8);
        if constexpr (kGrid) {
            row_bias[half] = row * static_cast<int>(a.rows.query);
            const float* const from =
                a.cols.data + image * a.cols.image + head * a.cols.head + row * a.cols.query + t * 2;
#pragma unroll
            for (int n = 0; n < kKeyTiles; ++n) {
                const float2 pair = *reinterpret_cast<const float2*>(from + n * 8);
                cols[n][2 * half] = pair.x * kLog2E;
                cols[n][2 * half + 1] = pair.y * kLog2E;
            }
        }
    }
    float sums[kValueTiles][4] = {};
    RowState state[2];
    float next_bias[2] = {};
    const auto load_bias = [&](int line) {
        if constexpr (kGrid)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                next_bias[half] = line_bias[row_bias[half] + min(first_line + line, a.lines - 1)] * kLog2E;
    };
    const int group = warp % a.groups;
    load_bias(group);
    for (int line = group; line < lines; line += a.groups) {
        const float bias[2] = {next_bias[0], next_bias[1]};
        load_bias(line + a.groups);
        wait_barrier(barriers + line * 8, 0);
        const unsigned keys = shared + line * 2 * kLineBytes;
        float score[kKeyTiles][4];
        multiply_keys(score, query, keys, lane);
        const int keys_left = a.keys - (first_line + line) * kLine;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float keep =
                weigh_line<kGrid>(score, cols, half, bias[half], keys_left, a.scale_log2, t, state[half]);
#pragma unroll
            for (int d = 0; d < kValueTiles; ++d) {
                sums[d][2 * half] *= keep;
                sums[d][2 * half + 1] *= keep;
            }
        }
        multiply_values(sums, score, keys + kLineBytes, lane);
    }
    __syncthreads();  // nobody reads keys any more

    float* const part = reinterpret_cast<float*>(memory + warp * kPartBytes);
    float2* const part_states = reinterpret_cast<float2*>(memory + bytes_for(a.lines_each)) + warp * 16;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float total = state[half].total;
        total += __shfl_xor_sync(0xffffffffU, total, 1);
        total += __shfl_xor_sync(0xffffffffU, total, 2);
        if (t == 0) part_states[g + 8 * half] = {state[half].highest, total};
#pragma unroll
        for (int d = 0; d < kValueTiles; ++d)
            store_pair(part + (g + 8 * half) * kPartStride + d * 8 + t * 2, sums[d][2 * half], sums[d][2 * half + 1]);
    }
    meet_cluster();
    join_parts<Out>(a, shared, states, rank, splits, first_query, head, image);
    meet_cluster();  // a block's memory must not go while others read it
#else
    (void)a;
#endif
}

CUtensorMap map_of(const Tensor& x, int heads) {
    const int64_t tokens = x.dim(1);
    const int64_t image = tokens * x.stride(1);
    const bool shared = x.stride(0) == 0 || x.dim(0) == 1;
    return tensor_map(x.raw(), {kSize, heads, tokens, 1, shared ? 1 : x.dim(0)},
                      {kSize, x.stride(1), image, shared ? image : x.stride(0)}, {kSize, 1, kLine, 1, 1}, kSize * 2);
}

bool is_shared(const Tensor& x) { return x.stride(0) == 0 || x.dim(0) == 1; }

template <bool kGrid, typename Out>
void start(const ExecContext& context, const FewQueries& a, dim3 grid) {
    void (*const kernel)(FewQueries) = few_queries_kernel<kGrid, Out>;
    constexpr int kMostBytes = bytes_for(kMostLines) + kStatesBytes + kBarrierBytes;
    static const cudaError_t raised =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostBytes);
    check(raised, "attention");
    const auto threads = static_cast<unsigned>(32 * a.tiles * a.groups);
    const auto bytes = static_cast<size_t>(bytes_for(a.lines_each) + kStatesBytes + kBarrierBytes);
    launch(context, "attention", [&](cudaStream_t stream) {
        KernelLaunch(grid, threads, bytes, stream).in_clusters(grid.x).early(context).start("attention", kernel, a);
    });
}

int splits_for(int lines) {
    constexpr int kFewLines = 16;  // quicker in one block than joined
    return lines < kFewLines ? 1 : kMostSplits;
}

}  // namespace

bool few_queries_take(const ExecContext& context, const AttentionShape& shape, const ScoreTerms& terms, int window) {
    constexpr int kFewQueries = 512;  // beyond, attention_wgmma.cu
    // Beside other work a cluster waits for neighbouring multiprocessors to be free: for one tile it is not worth it.
    const bool waits = device_of(context).is_branched() && shape.queries <= 16 && shape.keys >= 16 * kLine;
    const ScoreTerms::Kind kind = terms.kind();
    const bool grid = kind == ScoreTerms::grid && terms.grid_width == kLine && shape.keys % kLine == 0;
    return !waits && window == 0 && shape.head_size == kSize && shape.value_size == kSize &&
           shape.queries < kFewQueries && shape.keys <= kMostSplits * kMostLines * kLine &&
           (grid || kind == ScoreTerms::none) && device_of(context).is_hopper() && can_map_tensors();
}

void attention_few_queries(const ExecContext& context, const AttentionArgs& args, const AttentionShape& shape,
                           const ScoreTerms& terms, const Tensor& q, const Tensor& k, const Tensor& v) {
    FewQueries a{};
    a.k = map_of(k, args.heads);
    a.v = map_of(v, args.heads);
    a.q = q.data<bf16>();
    a.out = args.out.raw();
    a.q_image = q.stride(0);
    a.q_token = q.stride(1);
    a.out_image = args.out.stride(0);
    a.out_token = args.out.stride(1);
    a.rows = {terms.rows, terms.rows_batch, terms.rows_head, terms.rows_query};
    a.cols = {terms.cols, terms.cols_batch, terms.cols_head, terms.cols_query};
    a.queries = shape.queries;
    a.keys = shape.keys;
    a.heads = shape.heads;
    a.shared_keys = is_shared(k);
    a.shared_values = is_shared(v);
    a.scale_log2 = shape.scale * kLog2E;
    a.lines = static_cast<int>(blocks_for(shape.keys, kLine));
    const int splits = splits_for(a.lines);
    a.lines_each = static_cast<int>(blocks_for(a.lines, splits));

    // Blocks for every multiprocessor, and warps enough in each that they hide each other's waiting.
    const int tiles = static_cast<int>(blocks_for(shape.queries, 16));
    const int columns = shape.heads * shape.units * splits;
    const int most = std::clamp(device_of(context).multiprocessors() / columns, 1, tiles);
    const int blocks = std::max(most, static_cast<int>(blocks_for(tiles, kMostWarps)));
    a.tiles = static_cast<int>(blocks_for(tiles, blocks));
    a.groups = std::clamp(kMostWarps / a.tiles, 1, a.lines_each);
    const dim3 grid(static_cast<unsigned>(splits), static_cast<unsigned>(blocks_for(tiles, a.tiles)),
                    static_cast<unsigned>(shape.heads * shape.units));
    const bool biased = terms.rows != nullptr;
    if (args.out.dtype() == DType::f32)
        biased ? start<true, float>(context, a, grid) : start<false, float>(context, a, grid);
    else
        biased ? start<true, bf16>(context, a, grid) : start<false, bf16>(context, a, grid);
}

}  // namespace sam3::cuda
