#include "runtime/cuda/attention_few_keys.cuh"
#include "runtime/cuda/early.cuh"
#include "runtime/cuda/few_tokens.h"
#include "runtime/cuda/hopper.cuh"

#include <algorithm>

// The kernel of few_tokens.h. A linear layer's columns are divided among blocks, and its depth among their warps, so
// that a warp's rows fit its registers: all of them are asked for at once, and those that are to be normalised are, by
// every block for itself. Weights come by bulk copies to shared memory, up to three layers ahead. One warp does nothing
// but ask for them, at a steady pace: when all are asked for at once, everybody else's reads wait behind them. Biases
// and the like are brought to the cache at the beginning for the same reason.
//
// As in linear_few_rows.cu the order of the depth does not matter: lane 4 g + t takes 16 neighbouring bytes, quarter t
// of a chunk of 64, of row g of every eight.
namespace sam3::cuda {

namespace {

constexpr int kBlocks = 128;
constexpr int kWarps = 8;  // that compute; one more copies
constexpr int kThreads = 32 * kWarps;
constexpr int kMostTiles = 4;  // of eight columns, of a block
constexpr int kMostColumns = 8 * kMostTiles;
constexpr int kFewChunks = 4, kManyChunks = 16;  // of a warp's depth; known numbers, so that rows lie in registers
constexpr int kChunk = 32;                       // elements
constexpr int kChunkBytes = 64;
constexpr int kGap = 64;                   // bytes between columns in shared memory, so that they meet different banks
constexpr int kStride = kMostColumns + 8;  // floats, of a row of results; the same for these
constexpr int kHeadSize = 64;
constexpr int kSlots = 3;
constexpr int kSlotBytes = kMostColumns * (kWarps * kFewChunks * kChunkBytes + kGap);

enum NamedBarrier { kComputing = 1 };

// All warps that compute.
__device__ inline void meet_block() { wait_in_block(kComputing, kThreads); }

struct Place {
    int thread, warp, lane;

    __device__ Place() : thread(threadIdx.x), warp(threadIdx.x / 32), lane(threadIdx.x % 32) {}
};

// What a block has of a linear layer.
struct Share {
    int first_column, columns;

    __device__ explicit Share(const TokenStep& step)
        : first_column(blockIdx.x * step.tiles * 8),
          columns(max(0, min(step.tiles * 8, step.columns - first_column))) {}
};

// What is read once is the first to leave the cache.
__device__ inline void copy_bytes(unsigned to, const void* from, int bytes, unsigned barrier) {
    asm volatile(
        "{\n.reg .b64 policy;\n"
        "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], "
        "policy;\n}\n" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier)
        : "memory");
}
__device__ inline void bring_to_cache(const void* from, int bytes, int thread) {
    for (int at = thread * 128; from != nullptr && at < bytes; at += kThreads * 128)
        asm volatile("prefetch.global.L2::evict_last [%0];\n" ::"l"(static_cast<const unsigned char*>(from) + at));
}

// Places for the weights of some layers. Two barriers for each say that they are there, and that nobody needs them any
// more.
struct Slots {
    unsigned memory, barriers;
    Turn<kSlots> turn{};

    __device__ unsigned filled() const { return barriers + turn.stage * 16; }
    __device__ unsigned freed() const { return filled() + 8; }
    __device__ unsigned place() const { return memory + turn.stage * kSlotBytes; }
};

// What the warp does that copies: pieces of 8 KB, one every kPace cycles.
__device__ inline void copy_weights(const TokenProgram& program, Slots slots, int lane) {
    constexpr int kPiece = 8192;
    constexpr int64_t kPace = 800;
    int64_t last = clock64();
    for (int i = program.first_linear; i >= 0; i = program.steps[i].next_linear) {
        const TokenStep& step = program.steps[i];
        const Share share(step);
        const int bytes = step.depth * 2;
        const int together = kPiece / bytes;  // columns
        wait_barrier(slots.freed(), slots.turn.parity ^ 1);
        if (lane == 0) arrive_expecting(slots.filled(), share.columns * bytes);
        __syncwarp();
        for (int first = 0; first < share.columns; first += together) {
            const int column = first + lane;
            if (lane < together && column < share.columns)
                copy_bytes(slots.place() + column * (bytes + kGap),
                           static_cast<const unsigned char*>(step.w) + (share.first_column + column) * bytes, bytes,
                           slots.filled());
            while (clock64() - last < kPace) {
            }
            last = clock64();
        }
        slots.turn.next();
    }
}

__device__ inline void store_to(void* p, bool half, int at, float4 x) {
    if (half)
        store4(static_cast<bf16*>(p) + at, x);
    else
        store4(static_cast<float*>(p) + at, x);
}

// The sum over the four lanes that have a row.
__device__ inline float row_sum(float x) {
    x += __shfl_xor_sync(0xffffffffU, x, 1);
    return x + __shfl_xor_sync(0xffffffffU, x, 2);
}

struct Shared {
    float parts[kWarps][kMostTokens][kStride];
    float2 moments[kWarps][kMostTokens];  // of a warp's part of a row: mean, and sum of squared differences from it
    float sums[kWarps];
    TokenStep step;
    uint64_t barriers[kSlots][2];
};

// A lane's parts of one or two rows, eight apart, of a warp's depth.
template <int kHalves, int kChunks>
struct Rows {
    uint4 bits[kHalves][kChunks];

    // As they are.
    __device__ void load(const TokenStep& step, int first, int lane) {
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
            const int row = min(lane / 4 + half * 8, step.rows - 1);
            const bf16* const x =
                static_cast<const bf16*>(step.x) + row * step.x_stride + first * kChunk + lane % 4 * 8;
#pragma unroll
            for (int c = 0; c < kChunks; ++c) bits[half][c] = *reinterpret_cast<const uint4*>(x + c * kChunk);
        }
    }
    // Normalised. The first block stores the norm, which others may want.
    __device__ void load_normed(const TokenStep& step, int first, const Place& place, Shared& shared) {
        constexpr int kPairs = 2 * kChunks;  // of four neighbouring channels
        const int g = place.lane / 4;
        const int at = first * kChunk + place.lane % 4 * 8;
        const auto channel = [&](int i) { return at + i / 2 * kChunk + i % 2 * 4; };
        float4 v[kHalves][kPairs], gamma[kPairs], beta[kPairs];
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
            const float* const x = static_cast<const float*>(step.x) + min(g + half * 8, step.rows - 1) * step.x_stride;
#pragma unroll
            for (int i = 0; i < kPairs; ++i) v[half][i] = load4(x + channel(i));
        }
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
            gamma[i] = load4(static_cast<const float*>(step.gamma) + channel(i));
            beta[i] = load4(static_cast<const float*>(step.beta) + channel(i));
        }
        constexpr float kShare = 1.0F / (kChunks * kChunk);
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
            float sum = 0;
#pragma unroll
            for (int i = 0; i < kPairs; ++i) sum += (v[half][i].x + v[half][i].y) + (v[half][i].z + v[half][i].w);
            const float mean = row_sum(sum) * kShare;
            float squares = 0;
#pragma unroll
            for (int i = 0; i < kPairs; ++i) {
                const float4 d{v[half][i].x - mean, v[half][i].y - mean, v[half][i].z - mean, v[half][i].w - mean};
                squares += (d.x * d.x + d.y * d.y) + (d.z * d.z + d.w * d.w);
            }
            squares = row_sum(squares);
            if (place.lane % 4 == 0) shared.moments[place.warp][g + half * 8] = {mean, squares};
        }
        meet_block();
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
            const int row = g + half * 8;
            float mean = 0;
            float squares = 0;
            float2 parts[kWarps];
#pragma unroll
            for (int w = 0; w < kWarps; ++w) {
                parts[w] = shared.moments[w][row];
                mean += parts[w].x * (1.0F / kWarps);
            }
#pragma unroll
            for (int w = 0; w < kWarps; ++w) squares += parts[w].y * kShare + (parts[w].x - mean) * (parts[w].x - mean);
            const float scale = rsqrtf(squares * (1.0F / kWarps) + step.number);
#pragma unroll
            for (int i = 0; i < kPairs; ++i) {
                const float4 y{(v[half][i].x - mean) * scale * gamma[i].x + beta[i].x,
                               (v[half][i].y - mean) * scale * gamma[i].y + beta[i].y,
                               (v[half][i].z - mean) * scale * gamma[i].z + beta[i].z,
                               (v[half][i].w - mean) * scale * gamma[i].w + beta[i].w};
                uint4& to = bits[half][i / 2];
                (i % 2 == 0 ? to.x : to.z) = pack(y.x, y.y);
                (i % 2 == 0 ? to.y : to.w) = pack(y.z, y.w);
            }
            if (blockIdx.x == 0 && row < step.rows)
#pragma unroll
                for (int c = 0; c < kChunks; ++c)
                    *reinterpret_cast<uint4*>(static_cast<bf16*>(step.normed) + row * step.normed_stride + at +
                                              c * kChunk) = bits[half][c];
        }
    }
};

template <int kHalves, int kChunks, bool kNormed>
__device__ inline void multiply(Shared& shared, const Slots& slots) {
    const TokenStep& step = shared.step;
    const Place place;
    const Share share(step);
    const int g = place.lane / 4;
    const int first = place.warp * kChunks;

    // Four results of a thread: what is added to them is asked for first.
    constexpr int kPieces = kMostColumns / 4;
    const int row = place.thread / kPieces;
    const int piece = place.thread % kPieces;
    const int column = share.first_column + piece * 4;
    const bool stores = row < step.rows && piece * 4 < share.columns;
    float4 bias{0.0F, 0.0F, 0.0F, 0.0F};
    float4 more = bias;
    if (stores && step.bias != nullptr) bias = load4(static_cast<const float*>(step.bias) + column);
    if (stores && step.more != nullptr)
        more = load4(static_cast<const float*>(step.more) + row * step.more_stride + column);

    Rows<kHalves, kChunks> rows;
    if constexpr (kNormed)
        rows.load_normed(step, first, place, shared);
    else
        rows.load(step, first, place.lane);
    wait_barrier(slots.filled(), slots.turn.parity);
    const int column_bytes = step.depth * 2 + kGap;
    const unsigned weights = slots.place() + g * column_bytes + first * kChunkBytes + place.lane % 4 * 16;
    float sums[kMostTiles][4] = {};
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
        const uint4 low = rows.bits[0][c];
        const uint4 high = kHalves == 2 ? rows.bits[kHalves - 1][c] : uint4{0, 0, 0, 0};
        const unsigned upper[4] = {low.x, high.x, low.y, high.y};
        const unsigned lower[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
        for (int n = 0; n < kMostTiles; ++n) {
            if (n >= step.tiles) continue;
            const uint4 w = load16_from_shared(weights + n * 8 * column_bytes + c * kChunkBytes);
            multiply_add(sums[n], upper, w.x, w.y);
            multiply_add(sums[n], lower, w.z, w.w);
        }
    }
    __syncwarp();
    if (place.lane == 0) arrive(slots.freed());
#pragma unroll
    for (int half = 0; half < kHalves; ++half)
#pragma unroll
        for (int n = 0; n < kMostTiles; ++n)
            if (n < step.tiles)
                store_pair(&shared.parts[place.warp][half * 8 + g][n * 8 + place.lane % 4 * 2], sums[n][half * 2],
                           sums[n][half * 2 + 1]);
    meet_block();
    if (!stores) return;
    float4 sum = bias;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) sum = plus(sum, load4(&shared.parts[i][row][piece * 4]));
    if (step.activation != Activation::none)
        sum = {activate(sum.x, step.activation), activate(sum.y, step.activation), activate(sum.z, step.activation),
               activate(sum.w, step.activation)};
    store_to(step.out, step.half_out, row * step.out_stride + column, plus(sum, more));
}

__device__ inline float over_block(float x, const Place& place, Shared& shared) {
    x = warp_sum(x);
    if (place.lane == 0) shared.sums[place.warp] = x;
    meet_block();
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) sum += shared.sums[i];
    meet_block();
    return sum;
}

// A norm that is not followed by a linear layer: a block a row.
__device__ inline void normalise(const TokenStep& step, const Place& place, Shared& shared) {
    const int row = blockIdx.x;
    if (row >= step.rows) return;
    const int at = place.thread * 4;
    const bool has = at < step.columns;
    float4 v{0.0F, 0.0F, 0.0F, 0.0F};
    if (has) v = load4(static_cast<const float*>(step.x) + row * step.x_stride + at);
    const auto count = static_cast<float>(step.columns);
    const float mean = over_block((v.x + v.y) + (v.z + v.w), place, shared) / count;
    v = {v.x - mean, v.y - mean, v.z - mean, v.w - mean};
    const float squares = has ? (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w) : 0.0F;
    const float scale = rsqrtf(over_block(squares, place, shared) / count + step.number);
    if (!has) return;
    const float4 gamma = load4(static_cast<const float*>(step.gamma) + at);
    const float4 beta = load4(static_cast<const float*>(step.beta) + at);
    store_to(step.normed, step.half_out, row * step.normed_stride + at,
             {v.x * scale * gamma.x + beta.x, v.y * scale * gamma.y + beta.y, v.z * scale * gamma.z + beta.z,
              v.w * scale * gamma.w + beta.w});
}

// A block a head, of which one warp has all queries.
__device__ inline void attend(const TokenStep& step, const Place& place) {
    if (place.warp > 0 || static_cast<int>(blockIdx.x) >= step.columns / kHeadSize) return;
    few_keys::FewKeys a{};
    a.q = static_cast<const bf16*>(step.x);
    a.k = static_cast<const bf16*>(step.w);
    a.v = static_cast<const bf16*>(step.more);
    a.out = step.out;
    a.q_rows.token = step.x_stride;
    a.k_rows.token = step.w_stride;
    a.v_rows.token = step.more_stride;
    a.out_rows.token = step.out_stride;
    a.key_mask = static_cast<const uint8_t*>(step.bias);
    a.causal = step.causal;
    a.queries = step.rows;
    a.keys = step.depth;
    a.scale_log2 = step.number;
    few_keys::attend<kHeadSize, kMostTokens / 8, bf16>(a, blockIdx.x, 0, 0);
}

template <int kHalves>
__global__ void __launch_bounds__(kThreads + 32, 1) few_tokens_kernel(const __grid_constant__ TokenProgram program) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ __align__(16) Shared shared;
    const Place place;
    Slots slots{shared_address(memory), shared_address(shared.barriers)};
    if (place.thread == 0) {
        for (int i = 0; i < kSlots; ++i) {
            init_barrier(shared_address(&shared.barriers[i][0]), 1);
            init_barrier(shared_address(&shared.barriers[i][1]), kWarps);
        }
        publish_barriers();
    }
    __syncthreads();
    if (place.warp == kWarps) return copy_weights(program, slots, place.lane);
    for (int i = blockIdx.x; i < program.count; i += kBlocks) {
        const TokenStep& other = program.steps[i];
        if (other.kind == TokenStepKind::linear) bring_to_cache(other.bias, other.columns * 4, place.thread);
        bring_to_cache(other.gamma, other.depth * 4, place.thread);
        bring_to_cache(other.beta, other.depth * 4, place.thread);
    }
    const TokenStep& step = shared.step;
    const bool watches = place.thread == kThreads - 1;
    unsigned everyone = 0;
    for (int i = 0; i < program.count; ++i, everyone += kBlocks) {
        constexpr int kWords = sizeof(TokenStep) / 4;
        static_assert(kWords <= kThreads - 32);
        if (place.thread < kWords)
            reinterpret_cast<unsigned*>(&shared.step)[place.thread] =
                reinterpret_cast<const unsigned*>(&program.steps[i])[place.thread];
        // Blocks have counted themselves; all must be.
        if (watches && i > 0) {
            unsigned counted;
            do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];\n" : "=r"(counted) : "l"(program.meeting) : "memory");
            while (counted < everyone);
        }
        meet_block();
        const bool is_linear = step.kind == TokenStepKind::linear;
        if (is_linear && step.gamma != nullptr)
            multiply<kHalves, kFewChunks, true>(shared, slots);
        else if (is_linear && step.depth == kFewChunks * kWarps * kChunk)
            multiply<kHalves, kFewChunks, false>(shared, slots);
        else if (is_linear)
            multiply<kHalves, kManyChunks, false>(shared, slots);
        else if (step.kind == TokenStepKind::norm)
            normalise(step, place, shared);
        else
            attend(step, place);
        meet_block();
        if (watches) asm volatile("red.release.gpu.global.add.u32 [%0], 1;\n" ::"l"(program.meeting) : "memory");
        if (is_linear) slots.turn.next();
    }
    // The last one to leave leaves the counters as they were.
    if (watches && atomicAdd(program.meeting + 1, 1U) == kBlocks - 1) {
        program.meeting[0] = 0;
        program.meeting[1] = 0;
    }
#else
    (void)program;
#endif
}

template <int kHalves>
bool fits() {
    constexpr int kBytes = kSlots * kSlotBytes;
    int blocks = 0;
    int multiprocessors = 0;
    int gpu = 0;
    return cudaFuncSetAttribute(few_tokens_kernel<kHalves>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes) ==
               cudaSuccess &&
           cudaGetDevice(&gpu) == cudaSuccess &&
           cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, gpu) == cudaSuccess &&
           cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, few_tokens_kernel<kHalves>, kThreads + 32, kBytes) ==
               cudaSuccess &&
           blocks * multiprocessors >= kBlocks;
}

}  // namespace

bool divide_for_tokens(TokenStep& step) {
    const int chunks = step.depth / (kWarps * kChunk);
    step.tiles = static_cast<int>(blocks_for(step.columns, 8 * kBlocks));
    return step.depth % (kWarps * kChunk) == 0 && (chunks == kFewChunks || chunks == kManyChunks) &&
           step.columns % 8 == 0 && step.tiles * 8 * (step.depth * 2 + kGap) <= kSlotBytes;
}

bool can_be_normed(const TokenStep& linear) { return linear.depth == kFewChunks * kWarps * kChunk; }

bool few_tokens_fit() { return fits<1>() && fits<2>(); }

void start_few_tokens(const ExecContext& context, const TokenProgram& program) {
    int rows = 0;
    for (int i = 0; i < program.count; ++i) rows = std::max(rows, program.steps[i].rows);
    launch(context, "layers on few tokens", [&](cudaStream_t stream) {
        KernelLaunch(dim3(kBlocks), kThreads + 32, kSlots * kSlotBytes, stream)
            .all_at_once()
            .start("layers on few tokens", rows <= 8 ? few_tokens_kernel<1> : few_tokens_kernel<2>, program);
    });
}

}  // namespace sam3::cuda
