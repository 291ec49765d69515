#include "runtime/cuda/early.cuh"
#include "runtime/cuda/few_tokens_rows.cuh"

#include <algorithm>

// The kernel of few_tokens.h. It is bound by the time from one step to the next, so a step has few and short ways.
//
// A linear layer's columns are divided among clusters of blocks, and its depth among the blocks of a cluster, so that a
// block reads few rows. Each of its warps multiplies them by the columns that one block of the cluster is to finish,
// and sends the sums there.
//
// Results are handed over through memory whose bits are all set before: that is a value which no result has, so whoever
// needs it reads until there is another one. Nobody waits at a barrier, nor for a counter. Results lie in one of four
// places in turn. When a block finishes step i, its cluster has read all results of step i - 1, so that all blocks had
// read those of step i - 2: one warp, which does nothing else, sets the bits of those that were the block's own. It
// passes a fence, before which the block does not hand over in step i + 1; so everybody can see it before the place is
// written again, in step i + 2. The same fence orders the results that steps leave in memory.
//
// Weights come by bulk copies to shared memory, some layers ahead. One warp does nothing but ask for them, at a steady
// pace: when all are asked for at once, everybody else's reads wait behind them. Biases and the like are brought to the
// cache at the beginning for the same reason.
//
// As in linear_few_rows.cu the order of the depth does not matter: lane 4 g + t takes 16 neighbouring bytes, quarter t
// of a chunk of 64, of row g of every eight.
namespace sam3::cuda {

namespace {

using namespace few_tokens;

__device__ inline int stages_of(const TokenStep& step) { return step.depth / kUnit * step.tiles; }

// What the warp does that copies: eight columns of every block of the cluster, one stage every kPace cycles.
template <int kHalves>
__device__ inline void copy_weights(const TokenProgram& program, Shared<kHalves>& shared, const Place& place) {
    constexpr int64_t kPace = 1200;
    Turn<Shared<kHalves>::kStages> turn{};
    int64_t last = clock64();
    for (int i = program.first_linear; i >= 0; i = program.steps[i].next_linear) {
        const TokenStep& step = program.steps[i];
        const int first = (blockIdx.x - place.rank + place.lane / 8) * step.tiles * 8 + place.lane % 8;
        for (int unit = 0; unit * kUnit < step.depth; ++unit)
            for (int n = 0; n < step.tiles; ++n, turn.next()) {
                const int column = first + n * 8;
                const bool has = place.lane < 8 * kCluster && column < step.columns;
                const int columns = __popc(__ballot_sync(0xffffffffU, has));
                const unsigned filled = shared_address(&shared.filled[turn.stage]);
                wait_barrier(shared_address(&shared.freed[turn.stage]), turn.parity ^ 1);
                if (place.lane == 0) arrive_expecting(filled, columns * kSlice * 2);
                __syncwarp();
                if (has)
                    copy_bytes(shared_address(&shared.weights[turn.stage][place.lane * kColumnBytes]),
                               static_cast<const bf16*>(step.w) + static_cast<int64_t>(column) * step.depth +
                                   unit * kUnit + place.rank * kSlice,
                               kSlice * 2, filled);
                while (clock64() - last < kPace) {
                }
                last = clock64();
            }
    }
}

// Which barriers of a block come next.
template <int kHalves>
struct Turns {
    Turn<2> sums{}, moments{};
    Turn<Shared<kHalves>::kStages> stages{};
};

// A warp's weights of a step, which are there before its rows. Their place is free only when they have been multiplied:
// a copy may overtake reads that nothing waits for.
template <int kHalves>
struct Weights {
    uint4 bits[kMostStages][kChunks];

    __device__ Weights(int count, const Place& place, Turn<Shared<kHalves>::kStages> stages,
                       const Shared<kHalves>& shared) {
        const int at = (place.warp / kParts * 8 + place.lane / 4) * kColumnBytes +
                       place.warp % kParts * kChunks * kChunkBytes + place.lane % 4 * 16;
#pragma unroll
        for (int s = 0; s < kMostStages; ++s) {
            if (s >= count) continue;
            wait_barrier(shared_address(&shared.filled[stages.stage]), stages.parity);
#pragma unroll
            for (int c = 0; c < kChunks; ++c)
                bits[s][c] = load16_from_shared(shared_address(&shared.weights[stages.stage][at]) + c * kChunkBytes);
            stages.next();
        }
    }
};

// What a warp has of a linear layer, sent to the block that finishes it.
template <int kHalves>
__device__ inline void multiply(const TokenStep& step, const Weights<kHalves>& weights, const Place& place,
                                Turns<kHalves>& turns, Shared<kHalves>& shared) {
    constexpr int kChains = 4;  // of products that wait for each other
    const bool deep = step.depth > kUnit;
    const int stages = stages_of(step);
    const int finisher = place.warp / kParts;
    const int part = place.warp % kParts;
    const unsigned from =
        shared_address(&shared.rows[place.lane / 4][part * kChunks * kChunkBytes + place.lane % 4 * 16]);
    float sums[kMostStages][kChains][4] = {};
    uint4 rows[2][kChunks] = {};
#pragma unroll
    for (int s = 0; s < kMostStages; ++s) {
        if (s >= stages) continue;
        if (s == 0 || deep)
#pragma unroll
            for (int i = 0; i < kHalves * kChunks; ++i)
                rows[i / kChunks][i % kChunks] =
                    load16_from_shared(from + i / kChunks * 8 * kRowBytes + s * kSlice * 2 + i % kChunks * kChunkBytes);
#pragma unroll
        for (int c = 0; c < kChunks; ++c) {
            const uint4 w = weights.bits[s][c];
            const uint4 low = rows[0][c];
            const uint4 high = rows[1][c];
            const unsigned upper[4] = {low.x, high.x, low.y, high.y};
            const unsigned lower[4] = {low.z, high.z, low.w, high.w};
            multiply_add(sums[s][c * 2 % kChains], upper, w.x, w.y);
            multiply_add(sums[s][(c * 2 + 1) % kChains], lower, w.z, w.w);
        }
        __syncwarp();
        if (place.lane == 0) arrive(shared_address(&shared.freed[turns.stages.stage]));
        turns.stages.next();
    }
    const unsigned summed = address_in(shared_address(&shared.summed[turns.sums.stage]), finisher);
    const unsigned to = address_in(
        shared_address(&shared.sums[turns.sums.stage][place.rank * kParts + part][0][0][place.lane]), finisher);
#pragma unroll
    for (int n = 0; n < kMostTiles; ++n) {
        if (n >= step.tiles) continue;
        float all[4];
#pragma unroll
        for (int i = 0; i < kHalves * 2; ++i) {
            const auto sum = [&](int s) { return (sums[s][0][i] + sums[s][1][i]) + (sums[s][2][i] + sums[s][3][i]); };
            all[i] = sum(n);
            if (n == 0 && deep) all[i] = (all[i] + sum(1)) + (sum(2) + sum(3));
        }
#pragma unroll
        for (int half = 0; half < kHalves; ++half)
            send_pair(to + (n * kHalves + half) * 256, summed, all[half * 2], all[half * 2 + 1]);
    }
}

__device__ inline float2 activate_two(float2 x, Activation activation) {
    if (activation == Activation::none) return x;
    if (activation == Activation::gelu) return {gelu(x.x), gelu(x.y)};
    return {activate(x.x, activation), activate(x.y, activation)};
}

// Others may want what was prepared: the first cluster stores it.
template <int kHalves>
__device__ inline void store_prepared(const TokenStep& step, const Place& place, const Shared<kHalves>& shared) {
    for (int at = place.thread; at < step.rows * (kSlice / 8); at += kThreads) {
        const int row = at / (kSlice / 8);
        const int piece = at % (kSlice / 8);
        *reinterpret_cast<uint4*>(static_cast<bf16*>(step.prepared) + row * step.prepared_stride + place.rank * kSlice +
                                  piece * 8) = *reinterpret_cast<const uint4*>(&shared.rows[row][piece * 16]);
    }
    meet_block();
}

// A step that is a linear layer.
template <int kHalves>
__device__ inline void apply_linear(const TokenStep& step, int number, unsigned char* handover, const Place& place,
                                    Turns<kHalves>& turns, Shared<kHalves>& shared) {
    const unsigned char* const taken = place_of(handover, number - 1);
    const unsigned summed = shared_address(&shared.summed[turns.sums.stage]);
    if (place.thread == 0) arrive_expecting(summed, kWarps * step.tiles * kHalves * 256);
    const Result<kHalves> result(step, place.warp, place.lane);
    float2 bias{0.0F, 0.0F};
    float2 more = bias;
    if (result.exists && step.bias != nullptr)
        bias = *reinterpret_cast<const float2*>(static_cast<const float*>(step.bias) + result.column);
    if (result.exists && step.more != nullptr)
        more = *reinterpret_cast<const float2*>(static_cast<const float*>(step.more) + result.row * step.more_stride +
                                                result.column);
    const Weights<kHalves> weights(stages_of(step), place, turns.stages, shared);
    if (step.gamma != nullptr) {
        Normed<kHalves>(step, taken, place).gather(turns.moments, shared);
        turns.moments.next();
    } else if (step.attends) {
        Attended<kHalves>(step, taken, place).gather(shared);
    } else {
        Plain<kHalves>(step, taken, place).gather(shared);
    }
    meet_block();
    multiply(step, weights, place, turns, shared);
    meet_block();
    if (number > 0) wait_barrier(shared_address(&shared.cleaned), (number - 1) % 2);
    wait_barrier(summed, turns.sums.parity);
    if (result.exists) {
        float2 sum = bias;
#pragma unroll
        for (int i = 0; i < kWarps; ++i) {
            const float2 x = (&shared.sums[turns.sums.stage][i][0][0][0])[place.thread];
            sum = {sum.x + x.x, sum.y + x.y};
        }
        sum = activate_two(sum, step.activation);
        sum = {sum.x + more.x, sum.y + more.y};
        const uint2 words{step.half_out ? pack(sum.x, sum.y) : __float_as_uint(sum.x), __float_as_uint(sum.y)};
        if (step.hands_over) show(result.in(step, place_of(handover, number), step.columns), step.half_out, words);
        show(result.in(step, step.out, step.out_stride), step.half_out, words);
    }
    // Not earlier: somebody may have read this memory in the step before.
    if (step.prepared != nullptr && blockIdx.x < kCluster) store_prepared(step, place, shared);
    turns.sums.next();
}

__device__ inline float over_block(float x, const Place& place, float (&sums)[kWarps]) {
    x = warp_sum(x);
    if (place.lane == 0) sums[place.warp] = x;
    meet_block();
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) sum += sums[i];
    meet_block();
    return sum;
}

// A norm that is not followed by a linear layer: a block a row.
__device__ inline void normalise(const TokenStep& step, const Place& place, float (&sums)[kWarps]) {
    const int row = blockIdx.x;
    if (row >= step.rows) return;
    const int at = place.thread * 4;
    const bool has = at < step.columns;
    float4 v{0.0F, 0.0F, 0.0F, 0.0F};
    if (has) v = load4(static_cast<const float*>(step.x) + row * step.x_stride + at);
    const auto count = static_cast<float>(step.columns);
    const float mean = over_block((v.x + v.y) + (v.z + v.w), place, sums) / count;
    v = {v.x - mean, v.y - mean, v.z - mean, v.w - mean};
    const float squares = has ? (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w) : 0.0F;
    const float scale = rsqrtf(over_block(squares, place, sums) / count + step.number);
    if (!has) return;
    const float4 gamma = load4(static_cast<const float*>(step.gamma) + at);
    const float4 beta = load4(static_cast<const float*>(step.beta) + at);
    const float4 y{v.x * scale * gamma.x + beta.x, v.y * scale * gamma.y + beta.y, v.z * scale * gamma.z + beta.z,
                   v.w * scale * gamma.w + beta.w};
    const int64_t to = static_cast<int64_t>(row) * step.prepared_stride + at;
    if (step.half_out)
        store4(static_cast<bf16*>(step.prepared) + to, y);
    else
        store4(static_cast<float*>(step.prepared) + to, y);
}

// Attention that is not followed by a linear layer: a block a head, of which one warp has all queries.
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
    a.key_mask = static_cast<const uint8_t*>(step.mask);
    a.causal = step.causal;
    a.queries = step.rows;
    a.keys = step.depth;
    a.scale_log2 = step.number;
    few_keys::attend<kHeadSize, kMostTokens / 8, bf16>(a, blockIdx.x, 0, 0);
}

__device__ inline void describe(TokenStep& to, const TokenStep& step, int lane) {
    for (int i = lane; i < static_cast<int>(sizeof(TokenStep) / 4); i += 32)
        reinterpret_cast<unsigned*>(&to)[i] = reinterpret_cast<const unsigned*>(&step)[i];
}

// What the warp does that cleans behind the others.
template <int kHalves>
__device__ inline void clean(const TokenProgram& program, Shared<kHalves>& shared, int lane) {
    for (int i = 0; i < program.count; ++i) {
        wait_barrier(shared_address(&shared.finished), i % 2);
        const TokenStep& earlier = shared.steps[(i + kSteps - 2) % kSteps];
        if (i >= 2 && earlier.hands_over)
            for (int warp = 0; warp < earlier.tiles * kHalves; ++warp) {
                const Result<kHalves> result(earlier, warp, lane);
                if (result.exists)
                    show(result.in(earlier, place_of(program.handover, i - 2), earlier.columns), earlier.half_out,
                         {kMissing, kMissing});
            }
        constexpr int kAhead = kSteps / 2;
        if (i + kAhead < program.count) describe(shared.steps[(i + kAhead) % kSteps], program.steps[i + kAhead], lane);
        asm volatile("fence.acq_rel.gpu;\n" ::: "memory");
        __syncwarp();
        if (lane == 0) arrive(shared_address(&shared.cleaned));
    }
}

// Waits for all blocks, which count themselves.
__device__ inline void meet_all(unsigned* counter, unsigned everyone, const Place& place) {
    meet_block();
    if (place.thread == 0) {
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;\n" ::"l"(counter) : "memory");
        unsigned counted;
        do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];\n" : "=r"(counted) : "l"(counter) : "memory");
        while (counted < everyone);
    }
    meet_block();
}

// What all other warps do.
template <int kHalves>
__device__ inline void compute(const TokenProgram& program, Shared<kHalves>& shared, const Place& place) {
    for (int i = blockIdx.x; i < program.count; i += kBlocks) {
        const TokenStep& other = program.steps[i];
        if (other.kind == TokenStepKind::linear) bring_to_cache(other.bias, other.columns * 4, place.thread);
        bring_to_cache(other.gamma, other.depth * 4, place.thread);
        bring_to_cache(other.beta, other.depth * 4, place.thread);
    }
    unsigned everyone = 0;
    Turns<kHalves> turns;
    for (int i = 0; i < program.count; ++i) {
        const TokenStep step = shared.steps[i % kSteps];
        if (i > 0 && !step.takes_over) meet_all(program.meeting, everyone += kBlocks, place);
        if (step.kind == TokenStepKind::linear) {
            apply_linear(step, i, program.handover, place, turns, shared);
        } else {
            if (step.kind == TokenStepKind::norm)
                normalise(step, place, shared.row_sums);
            else
                attend(step, place);
            if (i > 0) wait_barrier(shared_address(&shared.cleaned), (i - 1) % 2);
        }
        __syncwarp();
        if (place.lane == 0) arrive(shared_address(&shared.finished));
    }
    // The last one to leave leaves the memory as it was.
    meet_block();
    if (place.thread == 0) shared.is_last = atomicAdd(program.meeting + 1, 1U) == kBlocks - 1;
    meet_block();
    if (!shared.is_last) return;
    if (shared.steps[(program.count - 1) % kSteps].takes_over)
        for (int at = place.thread * 16; at < kPlaceBytes; at += kThreads * 16)
            *reinterpret_cast<uint4*>(program.handover + (program.count - 2) % kPlaces * kPlaceBytes + at) = {
                kMissing, kMissing, kMissing, kMissing};
    if (place.thread < 2) program.meeting[place.thread] = 0;
}

template <int kHalves>
__global__ void __launch_bounds__(kAllThreads, 1) few_tokens_kernel(const __grid_constant__ TokenProgram program) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(128) unsigned char memory[];
    auto& shared = *reinterpret_cast<Shared<kHalves>*>(memory);
    const Place place;
    if (place.thread == 0) {
        for (int i = 0; i < Shared<kHalves>::kStages; ++i) {
            init_barrier(shared_address(&shared.filled[i]), 1);
            init_barrier(shared_address(&shared.freed[i]), kWarps);
        }
        for (int i = 0; i < 2; ++i) {
            init_barrier(shared_address(&shared.summed[i]), 1);
            init_barrier(shared_address(&shared.measured[i]), 1);
        }
        init_barrier(shared_address(&shared.finished), kWarps);
        init_barrier(shared_address(&shared.cleaned), 1);
        publish_barriers();
    }
    if (place.warp < kSteps / 2) describe(shared.steps[place.warp], program.steps[place.warp], place.lane);
    meet_cluster();
    if (place.warp >= kWarps) {
        give_registers<40>();
        if (place.warp == kWarps) copy_weights(program, shared, place);
        if (place.warp == kWarps + 1) clean(program, shared, place.lane);
    } else {
        take_registers<232>();
        compute(program, shared, place);
    }
#else
    (void)program;
#endif
}

template <int kHalves>
bool fits() {
    constexpr int kBytes = sizeof(Shared<kHalves>);
    KernelLaunch launch(dim3(kBlocks), kAllThreads, kBytes, nullptr);
    launch.in_clusters(kCluster);
    int clusters = 0;
    return cudaFuncSetAttribute(few_tokens_kernel<kHalves>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes) ==
               cudaSuccess &&
           cudaOccupancyMaxActiveClusters(&clusters, few_tokens_kernel<kHalves>, &launch.config()) == cudaSuccess &&
           clusters * kCluster >= kBlocks;
}

template <int kHalves>
void start(const TokenProgram& program, cudaStream_t stream) {
    KernelLaunch(dim3(kBlocks), kAllThreads, sizeof(Shared<kHalves>), stream)
        .all_at_once()
        .in_clusters(kCluster)
        .start("layers on few tokens", few_tokens_kernel<kHalves>, program);
}

}  // namespace

bool divide_for_tokens(TokenStep& step) {
    step.tiles = static_cast<int>(blocks_for(step.columns, 8 * kBlocks));
    return (step.depth == kUnit || step.depth == kMostUnits * kUnit) && step.columns % 8 == 0 &&
           step.depth / kUnit * step.tiles <= kMostStages;
}

bool can_prepare(const TokenStep& linear) { return linear.depth == kUnit; }

bool has_all_blocks(const TokenStep& linear) { return linear.columns == linear.tiles * 8 * kBlocks; }

bool few_tokens_fit() { return fits<1>() && fits<2>(); }

void start_few_tokens(const ExecContext& context, const TokenProgram& program) {
    int rows = 0;
    for (int i = 0; i < program.count; ++i) rows = std::max(rows, program.steps[i].rows);
    launch(context, "layers on few tokens",
           [&](cudaStream_t stream) { rows <= 8 ? start<1>(program, stream) : start<2>(program, stream); });
}

}  // namespace sam3::cuda
