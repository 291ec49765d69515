#include "runtime/cuda/early.cuh"
#include "runtime/cuda/gemm.h"
#include "runtime/cuda/hopper.cuh"
#include "runtime/cuda/linear_finish.cuh"
#include "runtime/cuda/tensor_map.h"
#include "runtime/cuda/wgmma.cuh"

#include <algorithm>

// Large products of bf16, or of codes of e4m3 with scales of rows, for Hopper: out = x * w^T with bias, activation,
// residual or rotation. A block has two warpgroups, each of which computes 128 channels of 160 rows of x: of the sizes
// that fit its registers this one loads least for what it multiplies, and the image encoder's products come out in
// whole rounds of 132 blocks (5184 rows are 33 times 160; 1024 channels 4 times 256). Two neighbouring blocks take the
// same rows of x, of which each loads half for both.
//
// The warpgroups of a block take turns: while one multiplies a tile, the other finishes the one before. Only products
// with a residual, of which the encoder's are one round, have both multiply one tile, which loads less.
//
// Results leave through shared memory by bulk copies, which run while the next tile is multiplied. A residual comes the
// same way: it is fetched as two more steps, one for each warpgroup, and its sum goes out from where it lies.
namespace sam3::cuda {

namespace {

constexpr int kRowBytes = 128;  // of x and w in one step
constexpr int kPair = 2;        // blocks that share rows
constexpr int kShareBytes = kRows / kPair * kRowBytes;
constexpr int kGroups = 2;  // warpgroups that multiply, 128 channels each
constexpr int kBlocks = 2;  // of 64 channels that a warpgroup has
constexpr int kThreads = (kGroups + 1) * 128;
constexpr int kPieces = kHalves * kBlocks;  // of a warpgroup
constexpr int kPieceBytes = kPieceRows * kWide * 2;
constexpr int kLead = 1;  // steps that the first warpgroup is ahead where both multiply one tile
static_assert(kPieceBytes % 1024 == 0);

constexpr int kScaleBytes = 2 * kGroups * kRows * 4;  // of rows: of two tiles, for each warpgroup

template <Finish kFinish>
struct Plan {
    static constexpr bool kSum = kFinish == Finish::residual;
    static constexpr int kTileGroups = kSum ? kGroups : 1;           // warpgroups that multiply one tile
    static constexpr int kChannels = kTileGroups * kBlocks * kWide;  // of out: rows of w
    static constexpr int kChannelBytes = kChannels * kRowBytes;
    static constexpr int kStageBytes = kChannelBytes + kPair * kShareBytes;
    static constexpr int kStages = kSum ? 4 : 5;
    static constexpr int kPlaces = kSum ? 0 : 2;  // for pieces, of a warpgroup
    static_assert(!kSum || kPieces * kPieceBytes <= kStageBytes);
    static constexpr int kBytes =
        kStages * kStageBytes + kGroups * kPlaces * kPieceBytes + 2 * kStages * 8 + kScaleBytes + 1024;
    static_assert(kBytes <= 227 * 1024);
};

enum NamedBarrier { kStarted = 1, kTogether, kTurn = kTogether + kGroups };  // the others for each warpgroup

// Where results lie, in terms of the five dimensions of their map: channels of a part, rows of a line, parts side by
// side and one below the other, lines. A matrix is one line and one part. In an image each row of x becomes 2 x 2
// pixels, which are four parts of its channels, and eight rows are one copy: they lie in one line.
struct Layout {
    Divisor line{kOne}, part{kOne};  // rows and channels of one
    int writers = 1;                 // threads that write a piece, the same number of its rows each

    static constexpr int64_t kOne = int64_t{1} << 30;
    static constexpr int kRows = 8;  // of a copy into an image
};

struct Product {
    CUtensorMap x, w, residual, out;
    const float* bias;
    const float *x_scales, *w_scales;
    Rotation rotation;
    Layout layout;
    int rows, channels;
    int depths, depth;  // steps, and elements of one
    int pairs, items;   // pairs: of blocks of channels
};

template <typename P>
struct Shared {
    unsigned stages, places, barriers;

    __device__ explicit Shared(unsigned start)
        : stages((start + 1023U) / 1024U * 1024U),
          places(stages + P::kStages * P::kStageBytes),
          barriers(places + kGroups * P::kPlaces * kPieceBytes) {}
    __device__ unsigned channels(int s) const { return stages + s * P::kStageBytes; }
    __device__ unsigned rows(int s) const { return channels(s) + P::kChannelBytes; }
    __device__ unsigned full(int s) const { return barriers + 8 * s; }
    __device__ unsigned free(int s) const { return barriers + 8 * (P::kStages + s); }
    __device__ unsigned scales(int tile, int group) const {
        return barriers + 16 * P::kStages + (tile % 2 * kGroups + group) * kRows * 4;
    }
};

template <typename P>
struct Tile {
    int row, channel;

    static __device__ Tile at(const Product& a, int index, int rank) {
        return {index / a.pairs * kRows, (index % a.pairs * kPair + rank) * P::kChannels};
    }
};

// Rows of w come in an order in which a thread has both channels of a pair: in every 16, first the even ones, then the
// odd ones. The first of them come before earlier kernels have ended: those write no weights.
template <typename P>
__device__ inline void fetch(const Product& a, const Shared<P>& m, int rank) {
    const auto fetch_channels = [&](int stage, const Tile<P>& tile, int depth) {
        arrive_expecting(m.full(stage), P::kStageBytes);
        copy_box(m.channels(stage), a.w, m.full(stage), depth * a.depth, 0, 0, tile.channel / 16, 0);
    };
    int early = min(P::kStages, a.depths);
    for (int s = 0; s < early; ++s) fetch_channels(s, Tile<P>::at(a, blockIdx.x / kPair, rank), s);
    wait_for_earlier();
    Turn<P::kStages> turn;
    for (int index = blockIdx.x / kPair; index < a.items; index += gridDim.x / kPair) {
        const auto tile = Tile<P>::at(a, index, rank);
        for (int depth = 0; depth < a.depths; ++depth, turn.next()) {
            if (--early < 0) {
                wait_barrier(m.free(turn.stage), turn.parity ^ 1);  // in both blocks
                fetch_channels(turn.stage, tile, depth);
            }
            copy_box_to_cluster(m.rows(turn.stage) + rank * kShareBytes, a.x, m.full(turn.stage), (1U << kPair) - 1,
                                depth * a.depth, tile.row + rank * (kRows / kPair), 0, 0, 0);
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

// A warpgroup's way through its tiles.
template <Finish kFinish, bool kCodes, typename Out>
struct Multiplier {
    using P = Plan<kFinish>;
    using Tile = cuda::Tile<P>;
    const Product& a;
    const Shared<P>& m;
    int rank;
    int group = warpgroup() - 1;
    Part part{};
    Turn<P::kStages> turn{};
    int place = 0;
    int number = 0;  // of tiles before this one

    // Which part of a piece a thread writes: in turn one of each warp, for warps start copies side by side.
    __device__ int writer() const { return static_cast<int>(threadIdx.x % 32 * 4 + threadIdx.x / 32 % 4); }
    __device__ bool writes() const { return writer() < a.layout.writers; }
    // Both blocks write into a stage, so both wait for it to be free in both.
    __device__ void done(int stage) const {
        if (threadIdx.x % 32 < kPair) arrive_in_cluster(m.free(stage), static_cast<int>(threadIdx.x) % 32);
    }
    __device__ void together() const { wait_in_block(kTogether + group, 128); }
    // Barriers of stages know only whether a phase is odd: who multiplies next waits until all stages before are full.
    __device__ void pass_turn() const { arrive_in_block(kTurn + 1 - group, kGroups * 128); }
    // Of the channels of a tile this warpgroup's 128.
    __device__ int share() const { return P::kTileGroups == 1 ? 0 : group; }
    __device__ int channel_of(const Tile& tile, int b) const { return tile.channel + (share() * kBlocks + b) * kWide; }
    __device__ Channels channels_at(int first) const {
        Channels channels;
        const int channel = first + part.channel;
        if (channel >= a.channels) return channels;
        if (a.bias != nullptr) channels.bias = __ldg(reinterpret_cast<const float2*>(a.bias + channel));
        if (kCodes) channels.scale = __ldg(reinterpret_cast<const float2*>(a.w_scales + channel));
        return channels;
    }
    __device__ void fetch_scales(const Tile& tile) const {
        for (int row = static_cast<int>(threadIdx.x) % 128; row < kRows; row += 128)
            store_shared(m.scales(number, group) + row * 4,
                         tile.row + row < a.rows ? __float_as_uint(a.x_scales[tile.row + row]) : 0U);
    }
    __device__ bool rotates(const Tile& tile, int b) const {
        return kFinish == Finish::rotation && channel_of(tile, b) < a.rotation.channels;
    }

    static __device__ void multiply_step(float (&sums)[kRows / 2], uint64_t channels, uint64_t rows, int add) {
        if constexpr (kCodes)
            Wgmma<kRows>::of_shared_codes(sums, channels, rows, add);
        else
            Wgmma<kRows>::of_shared(sums, channels, rows, add);
    }
    __device__ void multiply(float (&sums)[kBlocks][kRows / 2], bool& leads) {
        int last = -1;
        for (int depth = 0; depth < a.depths; ++depth, turn.next()) {
            wait_barrier(m.full(turn.stage), turn.parity);
            const uint64_t channels =
                describe<kRowBytes>(m.channels(turn.stage) + share() * (kBlocks * 64) * kRowBytes);
            const uint64_t rows = describe<kRowBytes>(m.rows(turn.stage));
            begin_products();
#pragma unroll
            for (int s = 0; s < kRowBytes / 32; ++s)
#pragma unroll
                for (int b = 0; b < kBlocks; ++b)
                    multiply_step(sums[b], moved(channels, b * 64 * kRowBytes + s * 32), moved(rows, s * 32),
                                  depth + s > 0 ? 1 : 0);
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

    // What this thread writes of a piece.
    __device__ void write(unsigned from, int first_channel, int first_row) const {
        const int skipped = writer() * Layout::kRows;
        auto part_number = static_cast<uint32_t>(first_channel);
        auto line = static_cast<uint32_t>(first_row + skipped);
        const uint32_t channel = a.layout.part.take(part_number);
        const uint32_t row = a.layout.line.take(line);
        write_box(a.out, from + skipped * kWide * 2, static_cast<int>(channel), static_cast<int>(row),
                  static_cast<int>(part_number % 2), static_cast<int>(part_number / 2), static_cast<int>(line));
        commit_writes();
    }

    __device__ void finish(const Tile& tile, const float (&sums)[kBlocks][kRows / 2],
                           const Channels (&channels)[kBlocks], Angles& angles, unsigned sum) {
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
                finish_piece<kFinish, kCodes, Out>(to, part, sums[b] + half * (kPieceRows / 2), channels[b],
                                                   m.scales(number, group) + half * kPieceRows * 4, angles,
                                                   rotates(tile, b));
                show_to_copies();
                together();
                if (writes()) write(to, channel_of(tile, b), tile.row + half * kPieceRows);
            }
        }
    }

    // The steps with the residual: this warpgroup's, in which its results replace it, and the other's.
    __device__ void add_and_finish(const Tile& tile, const float (&sums)[kBlocks][kRows / 2],
                                   const Channels (&channels)[kBlocks], Angles& angles, bool more_tiles) {
        const auto pass = [&] {
            wait_barrier(m.full(turn.stage), turn.parity);
            done(turn.stage);
            turn.next();
        };
        if (group == 1) pass();
        wait_barrier(m.full(turn.stage), turn.parity);
        if (kCodes) together();  // for the scales
        finish(tile, sums, channels, angles, m.channels(turn.stage));
        if (more_tiles) {
            if (writes()) wait_until_read<0>();
            together();
        }
        done(turn.stage);
        turn.next();
        if (group == 0) pass();
    }

    __device__ void run() {
        if (kCodes) wait_for_earlier();
        constexpr bool kOneTile = P::kTileGroups == kGroups;
        if (kOneTile && group == 1) wait_in_block(kStarted, kGroups * 128);
        bool leads = kOneTile && group == 0;
        const int step = static_cast<int>(gridDim.x) / kPair;
        int index = static_cast<int>(blockIdx.x) / kPair;
        const auto leave_out = [&] {  // a tile of the other's
            index += step;
            turn.skip(a.depths);
        };
        if (!kOneTile && group == 1) {
            leave_out();
            pass_turn();
        }
        for (; index < a.items; index += step) {
            const Tile tile = Tile::at(a, index, rank);
            const Channels channels[kBlocks] = {channels_at(channel_of(tile, 0)), channels_at(channel_of(tile, 1))};
            if (kCodes) fetch_scales(tile);
            float sums[kBlocks][kRows / 2];
            if (!kOneTile) wait_in_block(kTurn + group, kGroups * 128);
            multiply(sums, leads);
            if (!kOneTile && index + step < a.items) pass_turn();
            Angles angles;
            if (rotates(tile, 0)) angles.load(a.rotation, part, tile.row);
            wait_for_products<0>();
            done(turn.stage == 0 ? P::kStages - 1 : turn.stage - 1);
            if constexpr (P::kSum)
                add_and_finish(tile, sums, channels, angles, index + step < a.items);
            else
                finish(tile, sums, channels, angles, 0);
            ++number;
            if (!kOneTile) leave_out();
        }
        if (writes()) wait_until_read<0>();
    }
};

template <Finish kFinish, bool kCodes, typename Out>
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
            init_barrier(m.free(s), kPair * P::kTileGroups * 4);  // warps of both blocks
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
        Multiplier<kFinish, kCodes, Out>{a, m, rank}.run();
    }
    meet_cluster();  // the other block may still write here
#else
    (void)a;
#endif
}

template <Finish kFinish, bool kCodes, typename Out>
void start(const ExecContext& context, const Product& a, cudaStream_t stream) {
    constexpr int kBytes = Plan<kFinish>::kBytes;
    const auto kernel = product_kernel<kFinish, kCodes, Out>;
    static const cudaError_t raised = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    check(raised, "linear");
    const int clusters = std::min(a.items, device_of(context).multiprocessors() / kPair);
    KernelLaunch(dim3(static_cast<unsigned>(clusters * kPair)), kThreads, kBytes, stream)
        .early(context)
        .start("linear", kernel, a);
}
template <Finish kFinish, typename Out>
void start(const ExecContext& context, const Product& a, cudaStream_t stream) {
    a.x_scales != nullptr ? start<kFinish, true, Out>(context, a, stream)
                          : start<kFinish, false, Out>(context, a, stream);
}

bool takes_rows(const void* data, int64_t stride, int bytes = 2) {
    return reinterpret_cast<uintptr_t>(data) % 16 == 0 && stride * bytes % 16 == 0;
}

// A matrix of elements of one or two bytes, of which a copy moves `down` rows of 128 bytes.
CUtensorMap map_of(const void* data, int64_t rows, int64_t columns, int64_t stride, int down, int bytes = 2) {
    const int64_t all = rows * stride;
    return tensor_map(data, {columns, rows, 1, 1, 1}, {stride, all, all, all}, {kRowBytes / bytes, down, 1, 1, 1},
                      kRowBytes, bytes);
}

// [N * H * W, 2 * 2 * C] as [N, 2H, 2W, C].
CUtensorMap map_of_pixels(void* data, int64_t rows, int64_t channels, int64_t width) {
    const int64_t c = channels / 4;
    return tensor_map(data, {c, width, 2, 2, rows / width}, {2 * c, c, 2 * c * width, 4 * c * width},
                      {kWide, Layout::kRows, 1, 1, 1}, kRowBytes);
}

}  // namespace

bool own_product_takes(const ExecContext& context, const Gemm& gemm) {
    if (!device_of(context).is_hopper() || !can_map_tensors()) return false;
    const bool plain = gemm.batch == 1 && gemm.rows_of_w && gemm.alpha == 1 && !gemm.relu;
    const bool finish = (gemm.residual != nullptr ? 1 : 0) + (gemm.gelu ? 1 : 0) + (gemm.rotation ? 1 : 0) <= 1;
    const bool codes = gemm.in_type == DType::u8 && gemm.x_scales != nullptr && gemm.w_scales != nullptr;
    const int bytes = codes ? 1 : 2;
    const bool pixels =
        gemm.width == 0 || (gemm.width % Layout::kRows == 0 && gemm.n % (4 * kWide) == 0 && gemm.residual == nullptr);
    const bool types = (codes || gemm.in_type == DType::bf16) &&
                       (gemm.out_type == DType::bf16 || gemm.out_type == DType::f16) &&
                       (gemm.out_type == DType::bf16 || gemm.residual != nullptr);
    return plain && finish && pixels && types && gemm.n % 16 == 0 && takes_rows(gemm.x, gemm.x_stride, bytes) &&
           takes_rows(gemm.w, gemm.w_stride, bytes) && takes_rows(gemm.out, gemm.out_stride) &&
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
    a.x_scales = gemm.x_scales;
    a.w_scales = gemm.w_scales;
    a.rows = static_cast<int>(gemm.m);
    a.channels = static_cast<int>(gemm.n);
    const auto bytes = static_cast<int>(size_of(gemm.in_type));
    a.depth = kRowBytes / bytes;
    a.depths = static_cast<int>(blocks_for(gemm.k, a.depth));
    const int channels = gemm.residual != nullptr ? Plan<Finish::residual>::kChannels : Plan<Finish::none>::kChannels;
    a.pairs = static_cast<int>(blocks_for(gemm.n, kPair * channels));
    a.items = a.pairs * static_cast<int>(blocks_for(gemm.m, kRows));
    a.x = map_of(gemm.x, gemm.m, gemm.k, gemm.x_stride, kRows / kPair, bytes);
    a.w = tensor_map(gemm.w, {gemm.k, 8, 2, gemm.n / 16, 1},
                     {2 * gemm.w_stride, gemm.w_stride, 16 * gemm.w_stride, gemm.n * gemm.w_stride},
                     {a.depth, 8, 2, channels / 16, 1}, kRowBytes, bytes);
    if (gemm.width == 0) {
        a.out = map_of(gemm.out, gemm.m, gemm.n, gemm.out_stride, kPieceRows);
    } else {
        a.out = map_of_pixels(gemm.out, gemm.m, gemm.n, gemm.width);
        a.layout = {Divisor(gemm.width), Divisor(gemm.n / 4), kPieceRows / Layout::kRows};
    }
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
