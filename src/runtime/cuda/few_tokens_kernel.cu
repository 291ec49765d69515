#include "runtime/cuda/attention_few_keys.cuh"
#include "runtime/cuda/early.cuh"
#include "runtime/cuda/few_tokens.h"
#include "runtime/cuda/hopper.cuh"

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
// read those of step i - 2: whoever has written these sets their bits again. Everybody can see that before the place is
// written again, in step i + 2, since blocks pass a fence in step i + 1 before they hand over.
//
// Weights come by bulk copies to shared memory, some layers ahead. One warp does nothing but ask for them, at a steady
// pace: when all are asked for at once, everybody else's reads wait behind them. Biases and the like are brought to the
// cache at the beginning for the same reason.
//
// As in linear_few_rows.cu the order of the depth does not matter: lane 4 g + t takes 16 neighbouring bytes, quarter t
// of a chunk of 64, of row g of every eight.
namespace sam3::cuda {

namespace {

constexpr int kBlocks = 128;
constexpr int kCluster = 2;  // blocks
constexpr int kWarps = 8;    // that compute; of four more, one copies and one cleans
constexpr int kThreads = 32 * kWarps;
constexpr int kAllThreads = kThreads + 128;  // registers are divided among groups of four warps
constexpr int kMostTiles = 4;                // of eight columns, of a block
constexpr int kUnit = 1024;                  // of the depth
constexpr int kMostUnits = 4;
constexpr int kMostStages = 4;                 // of a step: tiles, or units
constexpr int kSlice = kUnit / kCluster;       // of a unit: what a block has
constexpr int kParts = kWarps / kCluster;      // of a slice: warps with the same columns
constexpr int kChunks = kSlice / kParts / 32;  // of a warp
constexpr int kChunkBytes = 64;
constexpr int kGap = 64;  // bytes between columns or rows in shared memory, so that they meet different banks
constexpr int kColumnBytes = kSlice * 2 + kGap;
constexpr int kStageBytes = 8 * kCluster * kColumnBytes;
constexpr int kRowBytes = kMostUnits * kSlice * 2 + kGap;
constexpr int kHeadSize = 64;
constexpr int kSteps = 8;
constexpr int kPlaces = 4;
constexpr int kPlaceBytes = kHandoverBytes / kPlaces;
constexpr unsigned kMissing = 0xffffffffU;

enum NamedBarrier { kComputing = 1 };

// All warps that compute.
__device__ inline void meet_block() { wait_in_block(kComputing, kThreads); }

struct Place {
    int thread, warp, lane, rank;

    __device__ Place()
        : thread(threadIdx.x), warp(threadIdx.x / 32), lane(threadIdx.x % 32), rank(blockIdx.x % kCluster) {}
};

template <int kHalves>
struct Shared {
    static constexpr int kStages = kHalves == 1 ? 10 : 7;
    static constexpr int kRows = kHalves * 8;

    unsigned char weights[kStages][kStageBytes];
    unsigned char rows[kRows][kRowBytes];
    float2 sums[2][kWarps][kMostTiles][kHalves][32];  // from all warps of the cluster that have this block's columns
    float2 moments[2][kCluster][kRows];  // of a block's part of a row: mean, and sum of squared differences from it
    TokenStep steps[kSteps];             // the one at hand and its neighbours
    float row_sums[kWarps];
    bool is_last;
    uint64_t filled[kStages], freed[kStages];
    uint64_t summed[2], measured[2];
    uint64_t finished, cleaned;
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

// To shared memory of a block of the cluster, whose barrier counts the bytes.
__device__ inline void send_pair(unsigned to, unsigned barrier, float a, float b) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];\n" ::"r"(to),
                 "f"(a), "f"(b), "r"(barrier)
                 : "memory");
}

// As all blocks see it.
__device__ inline uint4 load_shown(const void* p) {
    uint4 x;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(p)
                 : "memory");
    return x;
}
// All at once; where they are handed over, until all are there.
template <int kCount, typename From>
__device__ inline void take(uint4 (&to)[kCount], bool handed_over, const From& from) {
    unsigned top;
    do {
        top = 0;
#pragma unroll
        for (int i = 0; i < kCount; ++i) to[i] = load_shown(from(i));
#pragma unroll
        for (int i = 0; i < kCount; ++i) top = max(max(top, max(to[i].x, to[i].y)), max(to[i].z, to[i].w));
    } while (handed_over && top == kMissing);
    __syncwarp();
}

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

// The rows of a linear layer: in memory, or handed over.
struct Source {
    const unsigned char* rows;
    int64_t stride;  // bytes
    int last;
    bool handed_over;

    __device__ Source(const TokenStep& step, const unsigned char* handover, int element)
        : rows(step.takes_over ? handover : static_cast<const unsigned char*>(step.x)),
          stride(static_cast<int64_t>(step.takes_over ? step.depth * (step.attends ? 3 : 1) : step.x_stride) * element),
          last(step.rows - 1),
          handed_over(step.takes_over) {}
    __device__ const unsigned char* row(int number) const { return rows + min(number, last) * stride; }
};

// What a block has of the rows of a linear layer, as they are: a warp a row.
template <int kHalves>
__device__ inline void gather(const TokenStep& step, const unsigned char* handover, const Place& place,
                              Shared<kHalves>& shared) {
    constexpr int kPieces = kMostUnits * kSlice / 256;
    const Source source(step, handover, 2);
    const int pieces = step.depth / kUnit * (kSlice / 256);
    const auto unit = [&](int i) { return i % kPieces / (kSlice / 256); };
    const auto in_unit = [&](int i) { return (i % (kSlice / 256) * 32 + place.lane) * 16; };
    uint4 bits[kHalves * kPieces];
    take(bits, source.handed_over, [&](int i) {
        const int piece = i % kPieces < pieces ? i : i - i % kPieces;
        return source.row(place.warp + i / kPieces * 8) + unit(piece) * kUnit * 2 + place.rank * kSlice * 2 +
               in_unit(piece);
    });
#pragma unroll
    for (int i = 0; i < kHalves * kPieces; ++i)
        if (i % kPieces < pieces)
            *reinterpret_cast<uint4*>(&shared.rows[place.warp + i / kPieces * 8][unit(i) * kSlice * 2 + in_unit(i)]) =
                bits[i];
}

// The same, normalised.
template <int kHalves>
__device__ inline void gather_normed(const TokenStep& step, const unsigned char* handover, const Place& place,
                                     Turn<2>& turn, Shared<kHalves>& shared) {
    constexpr int kPieces = kSlice / 128;
    const Source source(step, handover, 4);
    const auto channel = [&](int i) { return place.rank * kSlice + (i % kPieces * 32 + place.lane) * 4; };
    const unsigned measured = shared_address(&shared.measured[turn.stage]);
    if (place.thread == 0) arrive_expecting(measured, sizeof(shared.moments[0]));
    float4 gamma[kPieces], beta[kPieces];
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
        gamma[i] = load4(static_cast<const float*>(step.gamma) + channel(i));
        beta[i] = load4(static_cast<const float*>(step.beta) + channel(i));
    }
    uint4 bits[kHalves * kPieces];
    take(bits, source.handed_over, [&](int i) { return source.row(place.warp + i / kPieces * 8) + channel(i) * 4; });
    const auto value = [&](int i) {
        return float4{__uint_as_float(bits[i].x), __uint_as_float(bits[i].y), __uint_as_float(bits[i].z),
                      __uint_as_float(bits[i].w)};
    };
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
        float mean = 0;
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
            const float4 v = value(half * kPieces + i);
            mean += ((v.x + v.y) + (v.z + v.w)) * (0.25F / kPieces);
        }
        float squares = 0;
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
            const float4 v = value(half * kPieces + i);
            const float4 d{v.x - mean, v.y - mean, v.z - mean, v.w - mean};
            squares += (d.x * d.x + d.y * d.y) + (d.z * d.z + d.w * d.w);
        }
        // Equal parts are joined, two and two.
#pragma unroll
        for (int lanes = 1; lanes < 32; lanes *= 2) {
            const float other = __shfl_xor_sync(0xffffffffU, mean, lanes);
            squares += __shfl_xor_sync(0xffffffffU, squares, lanes);
            squares += (other - mean) * (other - mean) * static_cast<float>(lanes * kPieces * 2);
            mean = (mean + other) * 0.5F;
        }
        const unsigned moments = shared_address(&shared.moments[turn.stage][place.rank][place.warp + half * 8]);
        if (place.lane < kCluster)
            send_pair(address_in(moments, place.lane), address_in(measured, place.lane), mean, squares);
    }
    wait_barrier(measured, turn.parity);
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
        const int row = place.warp + half * 8;
        float mean = 0;
        float squares = 0;
        float2 parts[kCluster];
#pragma unroll
        for (int i = 0; i < kCluster; ++i) {
            parts[i] = shared.moments[turn.stage][i][row];
            mean += parts[i].x * (1.0F / kCluster);
        }
#pragma unroll
        for (int i = 0; i < kCluster; ++i)
            squares += parts[i].y * (1.0F / kSlice) + (parts[i].x - mean) * (parts[i].x - mean);
        const float scale = rsqrtf(squares * (1.0F / kCluster) + step.number);
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
            const float4 v = value(half * kPieces + i);
            const uint2 y{
                pack((v.x - mean) * scale * gamma[i].x + beta[i].x, (v.y - mean) * scale * gamma[i].y + beta[i].y),
                pack((v.z - mean) * scale * gamma[i].z + beta[i].z, (v.w - mean) * scale * gamma[i].w + beta[i].w)};
            *reinterpret_cast<uint2*>(&shared.rows[row][(i * 32 + place.lane) * 8]) = y;
        }
    }
    turn.next();
}

// The same after attention: a warp a head. Registers are divided as in attention_few_keys.cuh.
template <int kHalves>
__device__ inline void gather_attended(const TokenStep& step, const unsigned char* handover, const Place& place,
                                       Shared<kHalves>& shared) {
    constexpr int kWords = kHeadSize / 8;  // of a lane's quarter
    constexpr int kPieces = 6;             // of a lane: two of queries, two of keys, two of values
    if (place.warp >= kSlice / kHeadSize) return;
    const Source source(step, handover, 2);
    const int g = place.lane / 4;
    const int t = place.lane % 4;
    const int head = place.rank * kSlice + place.warp * kHeadSize;
    bool sees = place.lane < step.rows;
    if (sees && step.mask != nullptr) sees = static_cast<const uint8_t*>(step.mask)[place.lane] != 0;
    const uint64_t seen = __ballot_sync(0xffffffffU, sees);
    uint4 bits[kHalves * kPieces];
    take(bits, source.handed_over, [&](int i) {
        const int of = i % kPieces / 2;
        const int row = i / kPieces * 8 + (of < 2 ? g : t * 2 + i % 2);
        const int channel = of < 2 ? t * (kHeadSize / 4) + i % 2 * 8 : g * (kHeadSize / 8);
        return source.row(row) + (of * step.depth + head + channel) * 2;
    });
    const auto word = [&](int half, int of, int i) {
        if (half >= kHalves) return 0U;
        const uint4 piece = bits[half * kPieces + of * 2 + i / 4];
        return i % 4 == 0 ? piece.x : i % 4 == 1 ? piece.y : i % 4 == 2 ? piece.z : piece.w;
    };
    float score[kHalves][4] = {};
    float others[kHalves][4] = {};
#pragma unroll
    for (int s = 0; s < kWords; s += 2) {
        const unsigned rows[4] = {word(0, 0, s), word(1, 0, s), word(0, 0, s + 1), word(1, 0, s + 1)};
#pragma unroll
        for (int n = 0; n < kHalves; ++n)
            multiply_add(s % 4 == 0 ? score[n] : others[n], rows, word(n, 1, s), word(n, 1, s + 1));
    }
#pragma unroll
    for (int i = 0; i < kHalves * 4; ++i) score[i / 4][i % 4] += others[i / 4][i % 4];
    float factor[kHalves];
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
        const uint64_t up_to_row = step.causal ? (uint64_t{2} << (g + 8 * half)) - 1 : ~uint64_t{0};
        factor[half] = few_keys::weigh_row(score, half, (seen & up_to_row) >> (2 * t), step.number);
    }
    unsigned weights[4] = {};
#pragma unroll
    for (int n = 0; n < kHalves; ++n)
#pragma unroll
        for (int half = 0; half < kHalves; ++half)
            weights[n * 2 + half] = pack(score[n][half * 2], score[n][half * 2 + 1]);
    float sums[kWords][4] = {};
#pragma unroll
    for (int i = 0; i < kWords / 2; ++i) {
        constexpr unsigned kLow = 0x5410;  // of two pairs of channels, the first ones, or the second ones
        constexpr unsigned kHigh = 0x7632;
        const unsigned v[4] = {word(0, 2, i), word(0, 2, i + 4), word(1, 2, i), word(1, 2, i + 4)};
        multiply_add(sums[2 * i], weights, __byte_perm(v[0], v[1], kLow), __byte_perm(v[2], v[3], kLow));
        multiply_add(sums[2 * i + 1], weights, __byte_perm(v[0], v[1], kHigh), __byte_perm(v[2], v[3], kHigh));
    }
#pragma unroll
    for (int half = 0; half < kHalves; ++half)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const auto two = [&](int j) {
                return pack(sums[j][half * 2 + i] * factor[half], sums[j + 1][half * 2 + i] * factor[half]);
            };
            *reinterpret_cast<uint4*>(&shared.rows[g + half * 8][(place.warp * kHeadSize + t * 16 + i * 8) * 2]) = {
                two(0), two(2), two(4), two(6)};
        }
}

// A warp's weights of a step, which are there before its rows.
template <int kHalves>
struct Weights {
    uint4 bits[kMostStages][kChunks];

    __device__ Weights(int count, const Place& place, Turn<Shared<kHalves>::kStages>& stages, Shared<kHalves>& shared) {
        const int at = (place.warp / kParts * 8 + place.lane / 4) * kColumnBytes +
                       place.warp % kParts * kChunks * kChunkBytes + place.lane % 4 * 16;
#pragma unroll
        for (int s = 0; s < kMostStages; ++s) {
            if (s >= count) continue;
            wait_barrier(shared_address(&shared.filled[stages.stage]), stages.parity);
#pragma unroll
            for (int c = 0; c < kChunks; ++c)
                bits[s][c] = load16_from_shared(shared_address(&shared.weights[stages.stage][at]) + c * kChunkBytes);
            __syncwarp();
            if (place.lane == 0) arrive(shared_address(&shared.freed[stages.stage]));
            stages.next();
        }
    }
};

// What a warp has of a linear layer, sent to the block that finishes it.
template <int kHalves>
__device__ inline void multiply(const TokenStep& step, const Weights<kHalves>& weights, const Place& place,
                                const Turn<2>& turn, Shared<kHalves>& shared) {
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
    }
    const unsigned summed = address_in(shared_address(&shared.summed[turn.stage]), finisher);
    const unsigned to =
        address_in(shared_address(&shared.sums[turn.stage][place.rank * kParts + part][0][0][place.lane]), finisher);
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

// Two neighbouring results of a thread.
template <int kHalves>
struct Result {
    int row, column;
    bool exists;

    __device__ Result(const TokenStep& step, int warp, int lane)
        : row(warp % kHalves * 8 + lane / 4),
          column((blockIdx.x * step.tiles + warp / kHalves) * 8 + lane % 4 * 2),
          exists(warp < step.tiles * kHalves && row < step.rows && column < step.columns) {}
    __device__ unsigned char* handed_over(const TokenStep& step, unsigned char* place) const {
        return place + (row * step.columns + column) * (step.half_out ? 2 : 4);
    }
};

__device__ inline void store_two(void* p, bool half, uint2 x) {
    if (half)
        asm volatile("st.relaxed.gpu.global.u32 [%0], %1;\n" ::"l"(p), "r"(x.x) : "memory");
    else
        asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %2};\n" ::"l"(p), "r"(x.x), "r"(x.y) : "memory");
}

__device__ inline unsigned char* place_of(unsigned char* handover, int number) {
    return handover + (number + kPlaces) % kPlaces * kPlaceBytes;
}

__device__ inline float2 activate_two(float2 x, Activation activation) {
    if (activation == Activation::none) return x;
    if (activation == Activation::gelu) return {gelu(x.x), gelu(x.y)};
    return {activate(x.x, activation), activate(x.y, activation)};
}

// A step that is a linear layer.
template <int kHalves>
__device__ inline void apply_linear(int number, unsigned char* handover, const Place& place, const Turn<2>& turn,
                                    Turn<2>& measures, Turn<Shared<kHalves>::kStages>& stages,
                                    Shared<kHalves>& shared) {
    const TokenStep step = shared.steps[number % kSteps];
    const Result<kHalves> result(step, place.warp, place.lane);
    // What is added to results is asked for first.
    float2 bias{0.0F, 0.0F};
    float2 more = bias;
    if (result.exists && step.bias != nullptr)
        bias = *reinterpret_cast<const float2*>(static_cast<const float*>(step.bias) + result.column);
    if (result.exists && step.more != nullptr)
        more = *reinterpret_cast<const float2*>(static_cast<const float*>(step.more) + result.row * step.more_stride +
                                                result.column);
    const Weights<kHalves> weights(stages_of(step), place, stages, shared);
    const unsigned char* const taken = place_of(handover, number - 1);
    const unsigned summed = shared_address(&shared.summed[turn.stage]);
    if (place.thread == 0) arrive_expecting(summed, kWarps * step.tiles * kHalves * 256);
    if (step.gamma != nullptr)
        gather_normed(step, taken, place, measures, shared);
    else if (step.attends)
        gather_attended(step, taken, place, shared);
    else
        gather(step, taken, place, shared);
    meet_block();
    multiply(step, weights, place, turn, shared);
    meet_block();
    if (number > 0) wait_barrier(shared_address(&shared.cleaned), (number - 1) % 2);
    wait_barrier(summed, turn.parity);
    if (result.exists) {
        float2 sum = bias;
#pragma unroll
        for (int i = 0; i < kWarps; ++i) {
            const float2 x = (&shared.sums[turn.stage][i][0][0][0])[place.thread];
            sum = {sum.x + x.x, sum.y + x.y};
        }
        sum = activate_two(sum, step.activation);
        sum = {sum.x + more.x, sum.y + more.y};
        const uint2 bits{step.half_out ? pack(sum.x, sum.y) : __float_as_uint(sum.x), __float_as_uint(sum.y)};
        if (step.hands_over) store_two(result.handed_over(step, place_of(handover, number)), step.half_out, bits);
        store_two(static_cast<unsigned char*>(step.out) +
                      (static_cast<int64_t>(result.row) * step.out_stride + result.column) * (step.half_out ? 2 : 4),
                  step.half_out, bits);
    }
    // Others may want the norm, or the attention. The memory is free only now.
    if (step.prepared != nullptr && blockIdx.x < kCluster) {
        for (int at = place.thread; at < step.rows * (kSlice / 8); at += kThreads) {
            const int row = at / (kSlice / 8);
            const int piece = at % (kSlice / 8);
            *reinterpret_cast<uint4*>(static_cast<bf16*>(step.prepared) + row * step.prepared_stride +
                                      place.rank * kSlice + piece * 8) =
                *reinterpret_cast<const uint4*>(&shared.rows[row][piece * 16]);
        }
        meet_block();
    }
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
                    store_two(result.handed_over(earlier, place_of(program.handover, i - 2)), earlier.half_out,
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
    Turn<2> turn{}, measures{};
    Turn<Shared<kHalves>::kStages> stages{};
    for (int i = 0; i < program.count; ++i) {
        const TokenStep& step = shared.steps[i % kSteps];
        if (i > 0 && !step.takes_over) meet_all(program.meeting, everyone += kBlocks, place);
        if (step.kind == TokenStepKind::linear) {
            apply_linear(i, program.handover, place, turn, measures, stages, shared);
            turn.next();
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
        give_registers<56>();
        if (place.warp == kWarps) copy_weights(program, shared, place);
        if (place.warp == kWarps + 1) clean(program, shared, place.lane);
    } else {
        take_registers<224>();
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
           step.tiles <= kMostTiles;
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
