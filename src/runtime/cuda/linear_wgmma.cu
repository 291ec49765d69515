#include "runtime/cuda/gemm.h"
#include "runtime/cuda/hopper.cuh"
#include "runtime/cuda/kernels.h"
#include "runtime/cuda/tensor_map.h"
#include "runtime/cuda/wgmma.cuh"

#include <algorithm>

// Large products of bf16 for Hopper: out = x * w^T with bias, activation and residual. A block computes 256 channels of
// 160 rows of x: of the sizes that fit its registers this one loads least for what it multiplies, and the image
// encoder's products come out in whole rounds of 132 blocks (5184 rows are 33 times 160; 1024 channels 4 times 256).
// Two neighbouring blocks take the same rows of x, of which each loads half for both.
namespace sam3::cuda {

namespace {

constexpr int kRows = 160;      // of x and out
constexpr int kChannels = 256;  // of out: rows of w
constexpr int kDepth = 64;      // of x and w in one step
constexpr int kPair = 2;        // blocks that share rows
constexpr int kRowBytes = kDepth * 2;
constexpr int kChannelBytes = kChannels * kRowBytes;
constexpr int kShareBytes = kRows / kPair * kRowBytes;
constexpr int kStageBytes = kChannelBytes + kPair * kShareBytes;
constexpr int kStages = 4;
constexpr int kGroups = 2;  // warpgroups that multiply, 128 channels each
constexpr int kBlocks = 2;  // of 64 channels that a warpgroup has
constexpr int kThreads = (kGroups + 1) * 128;
constexpr int kChunk = 32;            // rows of out that a warpgroup turns over at a time, 64 channels each
constexpr int kChunkStride = 64 + 4;  // floats: no two lanes meet in a bank
constexpr int kChunkBytes = kChunk * kChunkStride * 4;
constexpr int kLead = 2;  // steps that the first warpgroup is ahead: one multiplies while the other writes
constexpr int kBytes = kStages * kStageBytes + kGroups * kChunkBytes + 2 * kStages * 8 + 1024;

enum NamedBarrier { kStarted = 1, kTurned };  // the second for each warpgroup

struct Product {
    CUtensorMap x, w;
    const void* bias;  // of the type of out, as the residual
    const void* residual;
    void* out;
    int64_t residual_stride, out_stride;
    int rows, channels, depths;
    int pairs, items;  // pairs: of blocks of channels
};

struct Shared {
    unsigned stages, turns, barriers;

    __device__ explicit Shared(unsigned start)
        : stages((start + 1023U) / 1024U * 1024U),
          turns(stages + kStages * kStageBytes),
          barriers(turns + kGroups * kChunkBytes) {}
    __device__ unsigned channels(int s) const { return stages + s * kStageBytes; }
    __device__ unsigned rows(int s) const { return channels(s) + kChannelBytes; }
    __device__ unsigned full(int s) const { return barriers + 8 * s; }
    __device__ unsigned free(int s) const { return barriers + 8 * (kStages + s); }
};

struct Tile {
    int row, channel;

    static __device__ Tile at(const Product& a, int index, int rank) {
        return {index / a.pairs * kRows, (index % a.pairs * kPair + rank) * kChannels};
    }
};

__device__ inline void fetch(const Product& a, const Shared& m, int rank) {
    Turn<kStages> turn;
    for (int index = blockIdx.x / kPair; index < a.items; index += gridDim.x / kPair) {
        const Tile tile = Tile::at(a, index, rank);
        for (int depth = 0; depth < a.depths; ++depth, turn.next()) {
            wait_barrier(m.free(turn.stage), turn.parity ^ 1);  // in both blocks
            arrive_expecting(m.full(turn.stage), kStageBytes);
            copy_box(m.channels(turn.stage), a.w, m.full(turn.stage), depth * kDepth, tile.channel, 0, 0, 0);
            copy_box_to_cluster(m.rows(turn.stage) + rank * kShareBytes, a.x, m.full(turn.stage), (1U << kPair) - 1,
                                depth * kDepth, tile.row + rank * (kRows / kPair), 0, 0, 0);
        }
    }
}

// Eight neighbouring channels of a row.
struct Eight {
    float v[8];

    __device__ static Eight load(const float* p) {
        const float4 a = *reinterpret_cast<const float4*>(p);
        const float4 b = *reinterpret_cast<const float4*>(p + 4);
        return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
    }
    __device__ static Eight load(const __nv_bfloat16* p) {
        const uint4 bits = *reinterpret_cast<const uint4*>(p);
        Eight e;
        const unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            e.v[2 * i] = __uint_as_float(words[i] << 16);
            e.v[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000U);
        }
        return e;
    }
    __device__ void store(float* p) const {
        *reinterpret_cast<float4*>(p) = {v[0], v[1], v[2], v[3]};
        *reinterpret_cast<float4*>(p + 4) = {v[4], v[5], v[6], v[7]};
    }
    __device__ void store(__nv_bfloat16* p) const {
        unsigned words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const __nv_bfloat162 pair = __floats2bfloat162_rn(v[2 * i], v[2 * i + 1]);
            words[i] = *reinterpret_cast<const unsigned*>(&pair);
        }
        *reinterpret_cast<uint4*>(p) = {words[0], words[1], words[2], words[3]};
    }
};

__device__ inline void store_shared(unsigned to, float value) {
    asm volatile("st.shared.f32 [%0], %1;\n" ::"r"(to), "f"(value) : "memory");
}
__device__ inline Eight load_shared(unsigned from) {
    Eight e;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];\n"
                 : "=f"(e.v[0]), "=f"(e.v[1]), "=f"(e.v[2]), "=f"(e.v[3])
                 : "r"(from)
                 : "memory");
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4 + 16];\n"
                 : "=f"(e.v[4]), "=f"(e.v[5]), "=f"(e.v[6]), "=f"(e.v[7])
                 : "r"(from)
                 : "memory");
    return e;
}

// GELU in its tanh form: off by up to 5e-4 from the exact one, which bf16's own rounding hides.
__device__ inline float fast_gelu(float x) {
    constexpr float kScale = 0.7978845608F;  // sqrt(2 / pi)
    float t;
    asm("tanh.approx.f32 %0, %1;\n" : "=f"(t) : "f"(kScale * (x + 0.044715F * x * x * x)));
    return 0.5F * x + 0.5F * x * t;
}

enum class Finish { none, gelu, residual };

// The product has a channel in a row and a row of out in a column: a warpgroup turns pieces over in shared memory, so
// that whole lines are written.
template <Finish kFinish, typename Out>
__device__ inline void store(const Product& a, const Shared& m, const Tile& tile,
                             const float (&sums)[kBlocks][kRows / 2]) {
    const int lane = threadIdx.x % 32;
    const int group = threadIdx.x / 128 - 1;
    const int thread = threadIdx.x % 128;
    const unsigned turn = m.turns + group * kChunkBytes;
    const unsigned to = turn + ((lane % 4 * 2) * kChunkStride + thread / 32 * 16 + lane / 4) * 4;
    const unsigned from = turn + ((thread / 8) * kChunkStride + thread % 8 * 8) * 4;
    constexpr int kChunks = kRows / kChunk;
    constexpr int kEach = kChunk * 8 / 128;  // pieces of eight channels that a thread writes of a chunk
    const auto row_of = [&](int chunk, int i) { return tile.row + chunk * kChunk + i * 16 + thread / 8; };
    const auto channel_of = [&](int b) { return tile.channel + (group * kBlocks + b) * 64 + thread % 8 * 8; };
    const auto residual_of = [&](int step, Eight(&more)[kEach]) {
        if constexpr (kFinish == Finish::residual) {
            const int channel = channel_of(step / kChunks);
#pragma unroll
            for (int i = 0; i < kEach; ++i)
                if (const int row = row_of(step % kChunks, i); row < a.rows && channel < a.channels)
                    more[i] = Eight::load(static_cast<const Out*>(a.residual) + row * a.residual_stride + channel);
        }
    };
    Eight more[2][kEach];
    residual_of(0, more[0]);
    Eight bias{};
#pragma unroll
    for (int step = 0; step < kBlocks * kChunks; ++step) {
        const int b = step / kChunks;
        const int chunk = step % kChunks;
        const int channel = channel_of(b);
        if (chunk == 0 && a.bias != nullptr && channel < a.channels)
            bias = Eight::load(static_cast<const Out*>(a.bias) + channel);
        if (step + 1 < kBlocks * kChunks) residual_of(step + 1, more[(step + 1) % 2]);
#pragma unroll
        for (int n = 0; n < kChunk / 8; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i)  // columns 8 n + 2 (lane % 4) + i % 2, rows lane / 4 + 8 (i / 2) of the product
                store_shared(to + ((n * 8 + i % 2) * kChunkStride + i / 2 * 8) * 4,
                             sums[b][(chunk * (kChunk / 8) + n) * 4 + i]);
        wait_in_block(kTurned + group, 128);
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            Eight e = load_shared(from + i * 16 * kChunkStride * 4);
            const int row = row_of(chunk, i);
#pragma unroll
            for (int c = 0; c < 8; ++c) {
                e.v[c] += bias.v[c];
                if constexpr (kFinish == Finish::gelu) e.v[c] = fast_gelu(e.v[c]);
                if constexpr (kFinish == Finish::residual) e.v[c] += more[step % 2][i].v[c];
            }
            if (row < a.rows && channel < a.channels) e.store(static_cast<Out*>(a.out) + row * a.out_stride + channel);
        }
        wait_in_block(kTurned + group, 128);
    }
}

template <Finish kFinish, typename Out>
__device__ inline void multiply(const Product& a, const Shared& m, int rank) {
    const int lane = threadIdx.x % 32;
    const int group = threadIdx.x / 128 - 1;
    Turn<kStages> turn;
    // Both blocks write into a stage, so both wait for it to be free in both.
    const auto done = [&](int stage) {
        if (lane < kPair) arrive_in_cluster(m.free(stage), lane);
    };
    if (group == 1) wait_in_block(kStarted, kGroups * 128);
    bool first = group == 0;
    for (int index = blockIdx.x / kPair; index < a.items; index += gridDim.x / kPair) {
        float sums[kBlocks][kRows / 2];
        int last = -1;
        for (int depth = 0; depth < a.depths; ++depth, turn.next()) {
            wait_barrier(m.full(turn.stage), turn.parity);
            const unsigned channels = m.channels(turn.stage) + group * (kBlocks * 64) * kRowBytes;
            begin_products();
#pragma unroll
            for (int s = 0; s < kDepth / 16; ++s)
#pragma unroll
                for (int b = 0; b < kBlocks; ++b)
                    Wgmma<kRows>::of_shared(sums[b], describe<kRowBytes>(channels + b * 64 * kRowBytes + s * 32),
                                            describe<kRowBytes>(m.rows(turn.stage) + s * 32), depth + s > 0 ? 1 : 0);
            commit_products();
            wait_for_products<1>();  // those of the step before
            if (last >= 0) done(last);
            last = turn.stage;
            if (first && depth + 1 == min(kLead, a.depths)) {
                arrive_in_block(kStarted, kGroups * 128);
                first = false;
            }
        }
        wait_for_products<0>();
        done(last);
        store<kFinish, Out>(a, m, Tile::at(a, index, rank), sums);
    }
}

template <Finish kFinish, typename Out>
__global__ void __cluster_dims__(kPair, 1, 1) __launch_bounds__(kThreads, 1)
    product_kernel(const __grid_constant__ Product a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    const Shared m(shared_address(memory));
    const int rank = blockIdx.x % kPair;
    if (threadIdx.x == 0) {
        for (int s = 0; s < kStages; ++s) {
            init_barrier(m.full(s), 1);
            init_barrier(m.free(s), kPair * kGroups * 4);  // warps of both blocks
        }
        publish_barriers();
    }
    meet_cluster();
    if (threadIdx.x < 128) {
        give_registers<24>();
        if (threadIdx.x == 0) fetch(a, m, rank);
    } else {
        take_registers<240>();
        multiply<kFinish, Out>(a, m, rank);
    }
    meet_cluster();  // the other block may still write here
#else
    (void)a;
#endif
}

template <Finish kFinish, typename Out>
void start(const Product& a, int multiprocessors, cudaStream_t stream) {
    static const cudaError_t raised =
        cudaFuncSetAttribute(product_kernel<kFinish, Out>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    check(raised, "linear");
    const int clusters = std::min(a.items, multiprocessors / kPair);
    product_kernel<kFinish, Out><<<static_cast<unsigned>(clusters * kPair), kThreads, kBytes, stream>>>(a);
}

bool takes_rows(const void* data, int64_t stride, DType type) {
    return reinterpret_cast<uintptr_t>(data) % 16 == 0 && stride * static_cast<int64_t>(size_of(type)) % 16 == 0;
}

}  // namespace

bool own_product_takes(const Gemm& gemm) {
    constexpr int64_t kFewest = 1024;  // rows: less would leave most of the GPU idle
    const bool plain = gemm.batch == 1 && gemm.rows_of_w && gemm.alpha == 1 && !gemm.relu;
    const bool finish = !gemm.gelu || (gemm.residual == nullptr && gemm.out_type == DType::bf16);
    return can_map_tensors() && plain && finish && gemm.in_type == DType::bf16 && gemm.m >= kFewest &&
           gemm.n % 8 == 0 && gemm.n >= kChannels && gemm.k >= kDepth &&
           takes_rows(gemm.x, gemm.x_stride, gemm.in_type) && takes_rows(gemm.w, gemm.w_stride, gemm.in_type) &&
           takes_rows(gemm.out, gemm.out_stride, gemm.out_type) && takes_rows(gemm.bias, 0, gemm.out_type) &&
           takes_rows(gemm.residual, gemm.residual_stride, gemm.out_type);
}

void own_product(const Gemm& gemm, int multiprocessors, cudaStream_t stream) {
    Product a{};
    a.bias = gemm.bias;
    a.residual = gemm.residual;
    a.out = gemm.out;
    a.residual_stride = gemm.residual_stride;
    a.out_stride = gemm.out_stride;
    a.rows = static_cast<int>(gemm.m);
    a.channels = static_cast<int>(gemm.n);
    a.depths = static_cast<int>(blocks_for(gemm.k, kDepth));
    a.pairs = static_cast<int>(blocks_for(gemm.n, kPair * kChannels));
    a.items = a.pairs * static_cast<int>(blocks_for(gemm.m, kRows));
    const int64_t all_x = gemm.m * gemm.x_stride;
    const int64_t all_w = gemm.n * gemm.w_stride;
    a.x = tensor_map(gemm.x, {gemm.k, gemm.m, 1, 1, 1}, {gemm.x_stride, all_x, all_x, all_x},
                     {kDepth, kRows / kPair, 1, 1, 1}, kRowBytes);
    a.w = tensor_map(gemm.w, {gemm.k, gemm.n, 1, 1, 1}, {gemm.w_stride, all_w, all_w, all_w},
                     {kDepth, kChannels, 1, 1, 1}, kRowBytes);
    if (gemm.gelu)
        start<Finish::gelu, __nv_bfloat16>(a, multiprocessors, stream);
    else if (gemm.out_type == DType::bf16)
        gemm.residual == nullptr ? start<Finish::none, __nv_bfloat16>(a, multiprocessors, stream)
                                 : start<Finish::residual, __nv_bfloat16>(a, multiprocessors, stream);
    else
        gemm.residual == nullptr ? start<Finish::none, float>(a, multiprocessors, stream)
                                 : start<Finish::residual, float>(a, multiprocessors, stream);
}

}  // namespace sam3::cuda
