#include "runtime/cuda/early.cuh"
#include "runtime/cuda/gemm.h"
#include "runtime/cuda/hopper.cuh"
#include "runtime/cuda/strided.cuh"
#include "runtime/cuda/tensor_map.h"
#include "runtime/cuda/wgmma.cuh"

#include <algorithm>

// Large products of bf16 for Hopper: out = x * w^T with bias, activation, residual or rotation. A block computes 256
// channels of 160 rows of x: of the sizes that fit its registers this one loads least for what it multiplies, and the
// image encoder's products come out in whole rounds of 132 blocks (5184 rows are 33 times 160; 1024 channels 4 times
// 256). Two neighbouring blocks take the same rows of x, of which each loads half for both.
//
// Results leave through shared memory by bulk copies, which run while the next tile is multiplied. A residual comes the
// same way: it is fetched as two more steps, one for each warpgroup, and its sum goes out from where it lies.
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
constexpr int kGroups = 2;  // warpgroups that multiply, 128 channels each
constexpr int kBlocks = 2;  // of 64 channels that a warpgroup has
constexpr int kThreads = (kGroups + 1) * 128;
constexpr int kHalves = 2;  // a piece of the results: half of a block's rows
constexpr int kPieceRows = kRows / kHalves;
constexpr int kWide = 64;
constexpr int kPieces = kHalves * kBlocks;  // of a warpgroup
constexpr int kPieceBytes = kPieceRows * kWide * 2;
constexpr int kLead = 1;  // steps that the first warpgroup is ahead: one multiplies while the other finishes
static_assert(kPieces * kPieceBytes <= kStageBytes && kPieceBytes % 1024 == 0);

enum class Finish { none, gelu, residual, rotation };

template <Finish kFinish>
struct Plan {
    static constexpr bool kSum = kFinish == Finish::residual;
    static constexpr int kStages = kSum ? 4 : 3;
    static constexpr int kPlaces = kSum ? 0 : 3;  // for pieces, of a warpgroup
    static constexpr int kBytes = kStages * kStageBytes + kGroups * kPlaces * kPieceBytes + 2 * kStages * 8 + 1024;
    static_assert(kBytes <= 227 * 1024);
};

enum NamedBarrier { kStarted = 1, kTogether };  // the second for each warpgroup

// Which channels are rotated, and by what: as RopeArgs says. Positions are those of eight rows at a time.
struct Rotation {
    const float2* table = nullptr;
    int channels = 0;
    Divisor columns, window, positions;

    static constexpr int kPairs = kWide / 2;  // of a head
    __device__ int position(int row) const {
        auto y = static_cast<uint32_t>(row);
        if (window.divisor == 1) return static_cast<int>(positions.take(y));
        uint32_t x = columns.take(y);
        return static_cast<int>(window.take(y) * window.divisor + window.take(x));
    }
};

struct Product {
    CUtensorMap x, w, residual, out;
    const float* bias;
    Rotation rotation;
    int channels, depths;
    int pairs, items;  // pairs: of blocks of channels
};

template <typename P>
struct Shared {
    unsigned stages, places, barriers;

    __device__ explicit Shared(unsigned start)
        : stages((start + 1023U) / 1024U * 1024U),
          places(stages + P::kStages * kStageBytes),
          barriers(places + kGroups * P::kPlaces * kPieceBytes) {}
    __device__ unsigned channels(int s) const { return stages + s * kStageBytes; }
    __device__ unsigned rows(int s) const { return channels(s) + kChannelBytes; }
    __device__ unsigned full(int s) const { return barriers + 8 * s; }
    __device__ unsigned free(int s) const { return barriers + 8 * (P::kStages + s); }
};

struct Tile {
    int row, channel;

    static __device__ Tile at(const Product& a, int index, int rank) {
        return {index / a.pairs * kRows, (index % a.pairs * kPair + rank) * kChannels};
    }
};

// Rows of w come in an order in which a thread has both channels of a pair: in every 16, first the even ones, then the
// odd ones. The first of them come before earlier kernels have ended: those write no weights.
template <typename P>
__device__ inline void fetch(const Product& a, const Shared<P>& m, int rank) {
    const auto fetch_channels = [&](int stage, const Tile& tile, int depth) {
        arrive_expecting(m.full(stage), kStageBytes);
        copy_box(m.channels(stage), a.w, m.full(stage), depth * kDepth, 0, 0, tile.channel / 16, 0);
    };
    int early = min(P::kStages, a.depths);
    for (int s = 0; s < early; ++s) fetch_channels(s, Tile::at(a, blockIdx.x / kPair, rank), s);
    wait_for_earlier();
    Turn<P::kStages> turn;
    for (int index = blockIdx.x / kPair; index < a.items; index += gridDim.x / kPair) {
        const Tile tile = Tile::at(a, index, rank);
        for (int depth = 0; depth < a.depths; ++depth, turn.next()) {
            if (--early < 0) {
                wait_barrier(m.free(turn.stage), turn.parity ^ 1);  // in both blocks
                fetch_channels(turn.stage, tile, depth);
            }
            copy_box_to_cluster(m.rows(turn.stage) + rank * kShareBytes, a.x, m.full(turn.stage), (1U << kPair) - 1,
                                depth * kDepth, tile.row + rank * (kRows / kPair), 0, 0, 0);
        }
        for (int group = 0; P::kSum && group < kGroups; ++group, turn.next()) {
            wait_barrier(m.free(turn.stage), turn.parity ^ 1);
            arrive_expecting(m.full(turn.stage), kPieces * kPieceBytes);
            for (int piece = 0; piece < kPieces; ++piece)
                copy_box(m.channels(turn.stage) + piece * kPieceBytes, a.residual, m.full(turn.stage),
                         tile.channel + (group * kBlocks + piece % kBlocks) * kWide,
                         tile.row + piece / kBlocks * kPieceRows, 0, 0, 0);
        }
    }
}

__device__ inline void store_shared(unsigned to, unsigned value) {
    asm volatile("st.shared.b32 [%0], %1;\n" ::"r"(to), "r"(value));
}
__device__ inline unsigned load_shared(unsigned from) {
    unsigned value;
    asm volatile("ld.shared.b32 %0, [%1];\n" : "=r"(value) : "r"(from));
    return value;
}

template <typename Out>
__device__ inline unsigned pack_as(float2 v) {
    if constexpr (std::is_same_v<Out, bf16>) {
        return pack(v.x, v.y);
    } else {
        constexpr float kMost = 65504.0F;  // a stream that outgrows its type stays finite
        const __half2 both = __floats2half2_rn(fminf(fmaxf(v.x, -kMost), kMost), fminf(fmaxf(v.y, -kMost), kMost));
        return *reinterpret_cast<const unsigned*>(&both);
    }
}
template <typename Out>
__device__ inline float2 unpacked(unsigned bits) {
    if constexpr (std::is_same_v<Out, bf16>)
        return {__uint_as_float(bits << 16), __uint_as_float(bits & 0xFFFF0000U)};
    else
        return __half22float2(*reinterpret_cast<const __half2*>(&bits));
}

// GELU in its tanh form: off by up to 5e-4 from the exact one, which bf16's own rounding hides.
__device__ inline float fast_gelu(float x) {
    constexpr float kScale = 0.7978845608F;  // sqrt(2 / pi)
    const float u = x * (kScale + kScale * 0.044715F * (x * x));
    float t;
    asm("tanh.approx.f32 %0, %1;\n" : "=f"(t) : "f"(u));
    const float half = 0.5F * x;
    return half + half * t;
}

// What a thread has of a warpgroup's sums: two neighbouring channels of a block, of two rows in eight.
struct Part {
    int channel, row;  // in the block and in the eight
    unsigned place[2];

    __device__ Part() {
        const int lane = threadIdx.x % 32;
        const int warp = threadIdx.x / 32 % 4;
        channel = warp * 16 + lane / 4 * 2;
        row = lane % 4 * 2;
        for (int i = 0; i < 2; ++i)
            place[i] = (row + i) * (kWide * 2) + (((channel / 8) ^ (row + i)) * 16) + channel % 8 * 2;
    }
};

// The angles of a thread's channels in a piece: asked for long before they are used.
struct Angles {
    float2 v[kPieceRows / 8][2];

    __device__ void load(const Rotation& rotation, const Part& part, int first_row) {
#pragma unroll
        for (int n = 0; n < kPieceRows / 8; ++n) {
            const int position = rotation.position(first_row + n * 8) + part.row;
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float2* const from = rotation.table + (position + i) * Rotation::kPairs + part.channel / 2;
                asm volatile("ld.global.nc.v2.f32 {%0, %1}, [%2];\n" : "=f"(v[n][i].x), "=f"(v[n][i].y) : "l"(from));
            }
        }
    }
    __device__ float2 turned(float2 x, int n, int i) const {
        return {x.x * v[n][i].x - x.y * v[n][i].y, x.y * v[n][i].x + x.x * v[n][i].y};
    }
};

// One piece, which begins at `sums`, into its place.
template <Finish kFinish, typename Out>
__device__ inline void finish_piece(unsigned to, const Part& part, const float* sums, float2 bias, const Angles& angles,
                                    bool rotates) {
    constexpr int kRun = 5;  // times eight rows that are read at once
    static_assert(kPieceRows / 8 % kRun == 0);
#pragma unroll
    for (int first = 0; first < kPieceRows / 8; first += kRun) {
        unsigned more[kRun][2];
        if constexpr (kFinish == Finish::residual) {
#pragma unroll
            for (int n = 0; n < kRun; ++n)
#pragma unroll
                for (int i = 0; i < 2; ++i) more[n][i] = load_shared(to + part.place[i] + (first + n) * 8 * kWide * 2);
        }
#pragma unroll
        for (int n = first; n < first + kRun; ++n)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float2 v = {sums[4 * n + i] + bias.x, sums[4 * n + 2 + i] + bias.y};
                if constexpr (kFinish == Finish::gelu) v = {fast_gelu(v.x), fast_gelu(v.y)};
                if constexpr (kFinish == Finish::residual) {
                    const float2 old = unpacked<Out>(more[n - first][i]);
                    v = {v.x + old.x, v.y + old.y};
                }
                if (kFinish == Finish::rotation && rotates) v = angles.turned(v, n, i);
                store_shared(to + part.place[i] + n * 8 * kWide * 2, pack_as<Out>(v));
            }
    }
}

// A warpgroup's way through its tiles.
template <Finish kFinish, typename Out>
struct Multiplier {
    using P = Plan<kFinish>;
    const Product& a;
    const Shared<P>& m;
    int rank;
    int group = static_cast<int>(threadIdx.x) / 128 - 1;
    Part part{};
    Turn<P::kStages> turn{};
    int place = 0;

    __device__ bool writes() const { return threadIdx.x % 128 == 0; }
    // Both blocks write into a stage, so both wait for it to be free in both.
    __device__ void done(int stage) const {
        if (threadIdx.x % 32 < kPair) arrive_in_cluster(m.free(stage), static_cast<int>(threadIdx.x) % 32);
    }
    __device__ void together() const { wait_in_block(kTogether + group, 128); }
    __device__ int channel_of(const Tile& tile, int b) const { return tile.channel + (group * kBlocks + b) * kWide; }
    __device__ bool rotates(const Tile& tile, int b) const {
        return kFinish == Finish::rotation && channel_of(tile, b) < a.rotation.channels;
    }

    __device__ void multiply(float (&sums)[kBlocks][kRows / 2], bool& leads) {
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
            if (leads && depth + 1 == min(kLead, a.depths)) {
                arrive_in_block(kStarted, kGroups * 128);
                leads = false;
            }
        }
    }

    __device__ void finish(const Tile& tile, const float (&sums)[kBlocks][kRows / 2], const float2 (&bias)[kBlocks],
                           Angles& angles, unsigned sum) {
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
            if (half > 0 && rotates(tile, 0)) angles.load(a.rotation, part, tile.row + half * kPieceRows);
#pragma unroll
            for (int b = 0; b < kBlocks; ++b) {
                unsigned to = sum + (half * kBlocks + b) * kPieceBytes;
                if constexpr (!P::kSum) {
                    to = m.places + (group * P::kPlaces + place) * kPieceBytes;
                    place = place + 1 == P::kPlaces ? 0 : place + 1;
                    if (writes()) wait_until_read<P::kPlaces - 1>();
                    together();
                }
                finish_piece<kFinish, Out>(to, part, sums[b] + half * (kPieceRows / 2), bias[b], angles,
                                           rotates(tile, b));
                show_to_copies();
                together();
                if (writes()) {
                    write_box(a.out, to, channel_of(tile, b), tile.row + half * kPieceRows, 0, 0, 0);
                    commit_writes();
                }
            }
        }
    }

    // The steps with the residual: this warpgroup's, in which its results replace it, and the other's.
    __device__ void add_and_finish(const Tile& tile, const float (&sums)[kBlocks][kRows / 2],
                                   const float2 (&bias)[kBlocks], Angles& angles, bool more_tiles) {
        const auto pass = [&] {
            wait_barrier(m.full(turn.stage), turn.parity);
            done(turn.stage);
            turn.next();
        };
        if (group == 1) pass();
        wait_barrier(m.full(turn.stage), turn.parity);
        finish(tile, sums, bias, angles, m.channels(turn.stage));
        if (more_tiles) {
            if (writes()) wait_until_read<0>();
            together();
        }
        done(turn.stage);
        turn.next();
        if (group == 0) pass();
    }

    __device__ void run() {
        if (group == 1) wait_in_block(kStarted, kGroups * 128);
        bool leads = group == 0;
        const int step = static_cast<int>(gridDim.x) / kPair;
        for (int index = static_cast<int>(blockIdx.x) / kPair; index < a.items; index += step) {
            const Tile tile = Tile::at(a, index, rank);
            float2 bias[kBlocks];
#pragma unroll
            for (int b = 0; b < kBlocks; ++b) {
                const int channel = channel_of(tile, b) + part.channel;
                bias[b] = {0.0F, 0.0F};
                if (a.bias != nullptr && channel < a.channels)
                    bias[b] = __ldg(reinterpret_cast<const float2*>(a.bias + channel));
            }
            float sums[kBlocks][kRows / 2];
            multiply(sums, leads);
            Angles angles;
            if (rotates(tile, 0)) angles.load(a.rotation, part, tile.row);
            wait_for_products<0>();
            done(turn.stage == 0 ? P::kStages - 1 : turn.stage - 1);
            if constexpr (P::kSum)
                add_and_finish(tile, sums, bias, angles, index + step < a.items);
            else
                finish(tile, sums, bias, angles, 0);
        }
        if (writes()) wait_until_read<0>();
    }
};

template <Finish kFinish, typename Out>
__global__ void __cluster_dims__(kPair, 1, 1) __launch_bounds__(kThreads, 1)
    product_kernel(const __grid_constant__ Product a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    using P = Plan<kFinish>;
    extern __shared__ unsigned char memory[];
    const Shared<P> m(shared_address(memory));
    const int rank = blockIdx.x % kPair;
    if (threadIdx.x == 0) {
        for (int s = 0; s < P::kStages; ++s) {
            init_barrier(m.full(s), 1);
            init_barrier(m.free(s), kPair * kGroups * 4);  // warps of both blocks
        }
        publish_barriers();
    }
    meet_cluster();
    let_next_start();
    if (threadIdx.x < 128) {
        give_registers<24>();
        if (threadIdx.x == 0) fetch<P>(a, m, rank);
    } else {
        take_registers<240>();
        Multiplier<kFinish, Out>{a, m, rank}.run();
    }
    meet_cluster();  // the other block may still write here
#else
    (void)a;
#endif
}

template <Finish kFinish, typename Out>
void start(const ExecContext& context, const Product& a, cudaStream_t stream) {
    constexpr int kBytes = Plan<kFinish>::kBytes;
    static const cudaError_t raised =
        cudaFuncSetAttribute(product_kernel<kFinish, Out>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    check(raised, "linear");
    const int clusters = std::min(a.items, device_of(context).multiprocessors() / kPair);
    KernelLaunch(dim3(static_cast<unsigned>(clusters * kPair)), kThreads, kBytes, stream)
        .early(context)
        .start("linear", product_kernel<kFinish, Out>, a);
}

bool takes_rows(const void* data, int64_t stride) {
    return reinterpret_cast<uintptr_t>(data) % 16 == 0 && stride * 2 % 16 == 0;
}

// A matrix of 16-bit elements, of which a copy moves `down` rows of 64 columns.
CUtensorMap map_of(const void* data, int64_t rows, int64_t columns, int64_t stride, int down) {
    const int64_t all = rows * stride;
    return tensor_map(data, {columns, rows, 1, 1, 1}, {stride, all, all, all}, {kRowBytes / 2, down, 1, 1, 1},
                      kRowBytes);
}

}  // namespace

bool own_product_takes(const ExecContext& context, const Gemm& gemm) {
    if (!device_of(context).is_hopper() || !can_map_tensors()) return false;
    const bool plain = gemm.batch == 1 && gemm.rows_of_w && gemm.alpha == 1 && !gemm.relu;
    const bool finish = (gemm.residual != nullptr ? 1 : 0) + (gemm.gelu ? 1 : 0) + (gemm.rotation ? 1 : 0) <= 1;
    const bool types = gemm.in_type == DType::bf16 && (gemm.out_type == DType::bf16 || gemm.out_type == DType::f16) &&
                       (gemm.out_type == DType::bf16 || gemm.residual != nullptr);
    return plain && finish && types && gemm.n % 16 == 0 && takes_rows(gemm.x, gemm.x_stride) &&
           takes_rows(gemm.w, gemm.w_stride) && takes_rows(gemm.out, gemm.out_stride) &&
           takes_rows(gemm.residual, gemm.residual_stride) && takes_rows(gemm.exact_bias, 0);
}

bool own_product_rotates(const RopeArgs& args) {
    if (args.table.dtype() != DType::f32 || !args.table.is_dense() || args.table.dim(1) != Rotation::kPairs)
        return false;
    // Eight rows that begin at a multiple of eight have neighbouring positions.
    return args.window == 0 ? args.table.dim(0) % 8 == 0 : args.window % 8 == 0 && args.x.dim(2) % 8 == 0;
}

void own_product(const ExecContext& context, const Gemm& gemm, cudaStream_t stream) {
    Product a{};
    a.bias = gemm.exact_bias;
    a.channels = static_cast<int>(gemm.n);
    a.depths = static_cast<int>(blocks_for(gemm.k, kDepth));
    a.pairs = static_cast<int>(blocks_for(gemm.n, kPair * kChannels));
    a.items = a.pairs * static_cast<int>(blocks_for(gemm.m, kRows));
    a.x = map_of(gemm.x, gemm.m, gemm.k, gemm.x_stride, kRows / kPair);
    a.w = tensor_map(gemm.w, {gemm.k, 8, 2, gemm.n / 16, 1},
                     {2 * gemm.w_stride, gemm.w_stride, 16 * gemm.w_stride, gemm.n * gemm.w_stride},
                     {kDepth, 8, 2, kChannels / 16, 1}, kRowBytes);
    a.out = map_of(gemm.out, gemm.m, gemm.n, gemm.out_stride, kPieceRows);
    if (gemm.residual != nullptr) a.residual = map_of(gemm.residual, gemm.m, gemm.n, gemm.residual_stride, kPieceRows);
    if (gemm.rotation) {
        const RopeArgs& by = *gemm.rotation;
        a.rotation.table = reinterpret_cast<const float2*>(by.table.data<float>());
        a.rotation.channels = static_cast<int>(by.x.dim(-1));
        a.rotation.columns = Divisor(by.window == 0 ? 1 : by.x.dim(2));
        a.rotation.window = Divisor(std::max(1, by.window));
        a.rotation.positions = Divisor(by.table.dim(0));
        start<Finish::rotation, bf16>(context, a, stream);
    } else if (gemm.gelu) {
        start<Finish::gelu, bf16>(context, a, stream);
    } else if (gemm.residual == nullptr) {
        start<Finish::none, bf16>(context, a, stream);
    } else {
        gemm.out_type == DType::bf16 ? start<Finish::residual, bf16>(context, a, stream)
                                     : start<Finish::residual, __half>(context, a, stream);
    }
}

}  // namespace sam3::cuda
