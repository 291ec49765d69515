#include "runtime/cuda/early.cuh"
#include "runtime/cuda/hopper.cuh"
#include "runtime/cuda/linear_finish.cuh"
#include "runtime/cuda/tensor_map.h"
#include "runtime/cuda/weights.h"
#include "runtime/cuda/wgmma.cuh"

#include <algorithm>

// Convolutions of 3 x 3 with stride 1 for Hopper. All pixels are one row of positions, line after line, and every line
// begins with one position more, which is zero: what lies to the left and to the right of a pixel is then always its
// neighbour in the row, and a tile is so many positions, wherever lines end. A bulk copy brings 64 channels of the
// positions of a tile and of one more on either side, and a product with each of a line's three taps begins one
// position further on. Results of the additional column are not written.
//
// Two neighbouring blocks take the same channels of different positions; of the weights each loads half for both. As in
// linear_wgmma.cu, channels are the rows of the tensor cores' products, and results leave through shared memory.
namespace sam3::cuda {

namespace {

constexpr int kKernel = 3;
constexpr int kDepth = 64;  // channels of the image in one step
constexpr int kRowBytes = kDepth * 2;
constexpr int kPair = 2;    // blocks that share weights
constexpr int kGroups = 2;  // warpgroups that multiply
constexpr int kThreads = (kGroups + 1) * 128;
constexpr int kPieceBytes = kPieceRows * kWide * 2;

// A tile: kPositions of kBlocks times 64 channels for each warpgroup. Large ones load least for what they multiply; the
// others are for maps with too few pixels to give all multiprocessors a large one.
template <int Positions, int Blocks, int Images, int Taps, int Places>
struct Plan {
    static constexpr int kPositions = Positions;
    static constexpr int kBlocks = Blocks;
    static constexpr int kImages = Images;  // stages
    static constexpr int kTaps = Taps;
    static constexpr int kPlaces = Places;  // for pieces of results, of a warpgroup
    static constexpr int kChannels = kGroups * kBlocks * 64;
    static constexpr int kSeen = kPositions + kKernel - 1;
    static constexpr int kSeenBytes = kSeen * kRowBytes;
    static constexpr int kSeenRoom = (kSeenBytes + 1023) / 1024 * 1024;
    static constexpr int kTapBytes = kChannels * kRowBytes;
    static constexpr int kShareBytes = kTapBytes / kPair;
    static constexpr int kBytes =
        kImages * kSeenRoom + kTaps * kTapBytes + kGroups * kPlaces * kPieceBytes + 16 * (kImages + kTaps) + 1024;
    static_assert(kBytes <= 227 * 1024 && kPositions % kPieceRows == 0);
    // Of a tile, compared with others: the smaller it is, the longer it waits for what it loads.
    static constexpr double kProducts = kPositions * kBlocks;
    static constexpr double kTime = kProducts * (kProducts > 160 ? 1.0 : kProducts > 80 ? 1.05 : 1.25);
};
using Large = Plan<160, 2, 2, 4, 2>;
using Medium = Plan<160, 1, 3, 7, 2>;
using Small = Plan<80, 1, 4, 8, 1>;

enum NamedBarrier { kStarted = 1, kTogether };  // the second for each warpgroup

struct Args {
    CUtensorMap image, kernel;
    const float* bias;
    bf16* out;
    Divisor columns, lines;  // of an image: with the column that is added
    int all_lines, out_channels, depths;
    int tiles_deep, items;
};

template <typename P>
struct Shared {
    unsigned images, taps, places, barriers;

    __device__ explicit Shared(unsigned start)
        : images((start + 1023U) / 1024U * 1024U),
          taps(images + P::kImages * P::kSeenRoom),
          places(taps + P::kTaps * P::kTapBytes),
          barriers(places + kGroups * P::kPlaces * kPieceBytes) {}
    __device__ unsigned image(int s) const { return images + s * P::kSeenRoom; }
    __device__ unsigned tap(int s) const { return taps + s * P::kTapBytes; }
    __device__ unsigned image_full(int s) const { return barriers + 8 * s; }
    __device__ unsigned image_free(int s) const { return barriers + 8 * (P::kImages + s); }
    __device__ unsigned tap_full(int s) const { return barriers + 8 * (2 * P::kImages + s); }
    __device__ unsigned tap_free(int s) const { return barriers + 8 * (2 * P::kImages + P::kTaps + s); }
};

template <typename P>
struct Tile {
    int position, channel;

    static __device__ Tile at(const Args& a, int index, int rank) {
        return {(index / a.tiles_deep * kPair + rank) * P::kPositions, index % a.tiles_deep * P::kChannels};
    }
};

// Where a position lies: x is -1 in the additional column.
struct Pixel {
    int x, line;  // of all images

    static __device__ Pixel at(const Args& a, int position) {
        auto line = static_cast<uint32_t>(position);
        const auto x = static_cast<int>(a.columns.take(line)) - 1;
        return {x, static_cast<int>(line)};
    }
};

// Channels of weights come in an order in which a thread has both of a pair: in every 16, first the even ones, then the
// odd ones. The first of them come before earlier kernels have ended: those write no weights.
template <typename P>
__device__ inline void fetch(const Args& a, const Shared<P>& m, int rank) {
    const auto fetch_tap = [&](int stage, int channel, int line, int kx) {
        const int depth = line / kKernel;
        const int tap = line % kKernel * kKernel + kx;
        arrive_expecting(m.tap_full(stage), P::kTapBytes);
        copy_box_to_cluster(m.tap(stage) + rank * P::kShareBytes, a.kernel, m.tap_full(stage), (1U << kPair) - 1,
                            (tap * a.depths + depth) * kDepth, 0, 0, (channel + rank * (P::kChannels / kPair)) / 16, 0);
    };
    int early = P::kTaps;  // there are more in every tile
    static_assert(P::kTaps <= kKernel * kKernel);
    const int first_channel = Tile<P>::at(a, blockIdx.x / kPair, rank).channel;
    for (int s = 0; s < early; ++s) fetch_tap(s, first_channel, s / kKernel, s % kKernel);
    wait_for_earlier();
    Turn<P::kImages> image;
    Turn<P::kTaps> tap;
    for (int index = blockIdx.x / kPair; index < a.items; index += gridDim.x / kPair) {
        const auto tile = Tile<P>::at(a, index, rank);
        const Pixel pixel = Pixel::at(a, tile.position);
        auto n = static_cast<uint32_t>(pixel.line);
        const auto y = static_cast<int>(a.lines.take(n));
        for (int line = 0; line < a.depths * kKernel; ++line, image.next()) {
            wait_barrier(m.image_free(image.stage), image.parity ^ 1);
            arrive_expecting(m.image_full(image.stage), P::kSeenBytes);
            copy_pixels(m.image(image.stage), a.image, m.image_full(image.stage), line / kKernel * kDepth, pixel.x,
                        y - 1, static_cast<int>(n), line % kKernel);
            for (int kx = 0; kx < kKernel; ++kx, tap.next()) {
                if (--early >= 0) continue;
                wait_barrier(m.tap_free(tap.stage), tap.parity ^ 1);  // in both blocks
                fetch_tap(tap.stage, tile.channel, line, kx);
            }
        }
    }
}

// A warpgroup's way through its tiles.
template <typename P, Finish kFinish>
struct Multiplier {
    const Args& a;
    const Shared<P>& m;
    int rank;
    int group = warpgroup() - 1;
    Part part{};
    Turn<P::kImages> image{};
    Turn<P::kTaps> tap{};
    int place = 0;

    __device__ void together() const { wait_in_block(kTogether + group, 128); }
    // Both blocks write weights into a stage, so both wait for it to be free in both.
    __device__ void done_with_tap(int stage) const {
        if (threadIdx.x % 32 < kPair) arrive_in_cluster(m.tap_free(stage), static_cast<int>(threadIdx.x) % 32);
    }
    __device__ void done_with_image(int stage) const {
        if (threadIdx.x % 32 == 0) arrive(m.image_free(stage));
    }
    __device__ int channel_of(const Tile<P>& tile, int b) const {
        return tile.channel + (group * P::kBlocks + b) * kWide;
    }

    // The first warpgroup is one tap ahead: one multiplies while the other finishes.
    __device__ void multiply(float (&sums)[P::kBlocks][P::kPositions / 2], bool& leads) {
        int last_image = -1;
        int last_tap = -1;
        for (int line = 0; line < a.depths * kKernel; ++line, image.next()) {
            wait_barrier(m.image_full(image.stage), image.parity);
            for (int kx = 0; kx < kKernel; ++kx, tap.next()) {
                wait_barrier(m.tap_full(tap.stage), tap.parity);
                const uint64_t channels = describe<kRowBytes>(m.tap(tap.stage) + group * (P::kBlocks * 64) * kRowBytes);
                const unsigned positions = m.image(image.stage) + kx * kRowBytes;
                begin_products();
#pragma unroll
                for (int s = 0; s < kDepth / 16; ++s)
#pragma unroll
                    for (int b = 0; b < P::kBlocks; ++b)
                        Wgmma<P::kPositions>::of_shared(sums[b], moved(channels, b * 64 * kRowBytes + s * 32),
                                                        describe<kRowBytes>(positions + s * 32), line + kx + s > 0);
                commit_products();
                wait_for_products<1>();  // those of the tap before
                if (last_tap >= 0) done_with_tap(last_tap);
                if (kx == 0 && last_image >= 0) done_with_image(last_image);
                last_tap = tap.stage;
                if (leads) {
                    arrive_in_block(kStarted, kGroups * 128);
                    leads = false;
                }
            }
            last_image = image.stage;
        }
        wait_for_products<0>();
        done_with_tap(last_tap);
        done_with_image(last_image);
    }

    // A piece, 16 bytes a thread at a time: bulk copies could not leave out the additional column.
    __device__ void write(unsigned from, int first_channel, int first_position) const {
        const int chunk = static_cast<int>(threadIdx.x) % 8;
        const int channel = first_channel + chunk * 8;
#pragma unroll
        for (int i = 0; i < kPieceRows / 16; ++i) {
            const int row = static_cast<int>(threadIdx.x) % 128 / 8 + i * 16;
            const uint4 v = load16_from_shared(from + row * kWide * 2 + (chunk ^ row % 8) * 16);
            const Pixel pixel = Pixel::at(a, first_position + row);
            if (pixel.x < 0 || pixel.line >= a.all_lines || channel >= a.out_channels) continue;
            // Each line has one position more than pixels.
            const auto number = static_cast<int64_t>(first_position + row - pixel.line - 1);
            *reinterpret_cast<uint4*>(a.out + number * a.out_channels + channel) = v;
        }
    }

    __device__ void finish(const Tile<P>& tile, const float (&sums)[P::kBlocks][P::kPositions / 2],
                           const Channels (&channels)[P::kBlocks]) {
#pragma unroll
        for (int first = 0; first < P::kPositions; first += kPieceRows)
#pragma unroll
            for (int b = 0; b < P::kBlocks; ++b) {
                const unsigned to = m.places + (group * P::kPlaces + place) * kPieceBytes;
                place = place + 1 == P::kPlaces ? 0 : place + 1;
                if (P::kPlaces == 1) together();  // until the one before has been read
                finish_piece<kFinish, false, bf16>(to, part, sums[b] + first / 2, channels[b], 0, Angles{}, false);
                together();
                write(to, channel_of(tile, b), tile.position + 1 + first);
            }
    }

    __device__ void run() {
        if (group == 1) wait_in_block(kStarted, kGroups * 128);
        bool leads = group == 0;
        for (int index = blockIdx.x / kPair; index < a.items; index += gridDim.x / kPair) {
            const auto tile = Tile<P>::at(a, index, rank);
            Channels channels[P::kBlocks];
            for (int b = 0; b < P::kBlocks; ++b) {
                const int channel = channel_of(tile, b) + part.channel;
                if (a.bias != nullptr && channel < a.out_channels)
                    channels[b].bias = __ldg(reinterpret_cast<const float2*>(a.bias + channel));
            }
            float sums[P::kBlocks][P::kPositions / 2];
            multiply(sums, leads);
            finish(tile, sums, channels);
        }
    }
};

template <typename P, Finish kFinish>
__global__ void __cluster_dims__(kPair, 1, 1) __launch_bounds__(kThreads, 1)
    conv_kernel(const __grid_constant__ Args a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    const Shared<P> m(shared_address(memory));
    const int rank = blockIdx.x % kPair;
    if (threadIdx.x == 0) {
        constexpr int kReaders = 4 * kGroups;  // warps
        for (int s = 0; s < P::kImages; ++s) {
            init_barrier(m.image_full(s), 1);
            init_barrier(m.image_free(s), kReaders);
        }
        for (int s = 0; s < P::kTaps; ++s) {
            init_barrier(m.tap_full(s), 1);
            init_barrier(m.tap_free(s), kPair * kReaders);
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
        Multiplier<P, kFinish>{a, m, rank}.run();
    }
    meet_cluster();  // the other block may still write here
#else
    (void)a;
#endif
}

// All positions but the first: it is an additional one.
template <typename P>
int items_of(int64_t positions, int64_t channels) {
    return static_cast<int>(blocks_for(positions - 1, kPair * P::kPositions) * blocks_for(channels, P::kChannels));
}

// Rounds, each as long as a tile takes.
template <typename P>
double time_of(int64_t positions, int64_t channels, int clusters) {
    return P::kTime * static_cast<double>(blocks_for(items_of<P>(positions, channels), clusters));
}

template <typename P, Finish kFinish>
void start(const ExecContext& context, const Args& a, int clusters, cudaStream_t stream) {
    const auto kernel = conv_kernel<P, kFinish>;
    static const cudaError_t raised =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, P::kBytes);
    check(raised, "conv2d");
    KernelLaunch(dim3(static_cast<unsigned>(std::min(a.items, clusters) * kPair)), kThreads, P::kBytes, stream)
        .early(context)
        .start("conv2d", kernel, a);
}

template <typename P>
void convolve(const ExecContext& context, const Conv2dArgs& args, const CudaConv2d& weights, const Tensor& x,
              int clusters) {
    const CudaLinear& rows = weights.rows;
    const int64_t k = rows.in_features;
    const int64_t channels = weights.out_channels;
    Args a{};
    a.out_channels = static_cast<int>(channels);
    a.depths = static_cast<int>(x.dim(3)) / kDepth;
    a.columns = Divisor(x.dim(2) + 1);
    a.lines = Divisor(x.dim(1));
    a.tiles_deep = static_cast<int>(blocks_for(channels, P::kChannels));
    a.items = items_of<P>(x.dim(0) * x.dim(1) * (x.dim(2) + 1), channels);
    a.bias = rows.bias ? rows.bias.data<float>() : nullptr;
    a.image = pixel_map(x.raw(), {x.dim(0), x.dim(1), x.dim(2), x.dim(3)}, P::kSeen);
    a.out = args.out.data<bf16>();
    a.all_lines = static_cast<int>(x.dim(0) * x.dim(1));
    a.kernel = tensor_map(rows.weight.raw(), {k, 8, 2, channels / 16, 1}, {2 * k, k, 16 * k, channels * k},
                          {kDepth, 8, 2, P::kChannels / kPair / 16, 1}, kRowBytes);
    launch(context, "conv2d", [&](cudaStream_t stream) {
        args.activation == Activation::relu ? start<P, Finish::relu>(context, a, clusters, stream)
                                            : start<P, Finish::none>(context, a, clusters, stream);
    });
}

}  // namespace

bool wgmma_takes(const ExecContext& context, const Conv2dArgs& args, const CudaConv2d& weights) {
    const bool simple = (args.activation == Activation::none || args.activation == Activation::relu) && !args.residual;
    return simple && device_of(context).is_hopper() && can_map_tensors() && weights.groups == 1 &&
           weights.stride == 1 && weights.kernel_h == kKernel && weights.kernel_w == kKernel && weights.padding == 1 &&
           weights.rows.weight.dtype() == DType::bf16 && weights.in_channels % kDepth == 0 &&
           weights.out_channels % 16 == 0 && args.x.is_dense() && args.out.dtype() == DType::bf16;
}

void conv2d_wgmma(const ExecContext& context, const Conv2dArgs& args, const CudaConv2d& weights) {
    const Tensor x = as_type(context, args.x, DType::bf16);
    const int clusters = device_of(context).multiprocessors() / kPair;
    const int64_t positions = x.dim(0) * x.dim(1) * (x.dim(2) + 1);
    const int64_t channels = weights.out_channels;
    const double small = time_of<Small>(positions, channels, clusters);
    const double medium = time_of<Medium>(positions, channels, clusters);
    const double large = time_of<Large>(positions, channels, clusters);
    if (large <= std::min(small, medium))
        convolve<Large>(context, args, weights, x, clusters);
    else if (medium <= small)
        convolve<Medium>(context, args, weights, x, clusters);
    else
        convolve<Small>(context, args, weights, x, clusters);
}

}  // namespace sam3::cuda
