#pragma once

#include "runtime/cuda/few_tokens.h"
#include "runtime/cuda/hopper.cuh"

// What a block of few_tokens_kernel.cu consists of: sizes, shared memory, and how it speaks to others.
namespace sam3::cuda::few_tokens {

constexpr int kBlocks = 128;
constexpr int kCluster = 2;  // blocks; of larger clusters fewer fit
constexpr int kWarps = 8;    // that compute; of four more, one copies and one cleans
constexpr int kThreads = 32 * kWarps;
constexpr int kAllThreads = kThreads + 128;    // registers are divided among groups of four warps
constexpr int kMostTiles = 4;                  // of eight columns, of a block
constexpr int kUnit = 1024;                    // of the depth
constexpr int kMostUnits = 4;                  // with one tile; otherwise there is one unit
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
    uint64_t finished, cleaned;  // the step at hand, the one before it
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
// One word if half, else two.
__device__ inline void show(void* p, bool half, uint2 x) {
    if (half)
        asm volatile("st.relaxed.gpu.global.u32 [%0], %1;\n" ::"l"(p), "r"(x.x) : "memory");
    else
        asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %2};\n" ::"l"(p), "r"(x.x), "r"(x.y) : "memory");
}

// Where the results of a step are handed over.
__device__ inline unsigned char* place_of(unsigned char* handover, int number) {
    return handover + (number + kPlaces) % kPlaces * kPlaceBytes;
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
    __device__ unsigned char* in(const TokenStep& step, void* results, int stride) const {
        return static_cast<unsigned char*>(results) +
               (static_cast<int64_t>(row) * stride + column) * (step.half_out ? 2 : 4);
    }
};

}  // namespace sam3::cuda::few_tokens
