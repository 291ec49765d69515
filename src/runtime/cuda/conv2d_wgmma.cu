#include "runtime/cuda/hopper.cuh"
#include "runtime/cuda/tensor_map.h"
#include "runtime/cuda/weights.h"
#include "runtime/cuda/wgmma.cuh"

#include <algorithm>
#include <limits>

// Convolutions of 3 x 3 with stride 1 for Hopper. A block computes 8 x 32 pixels of 128 channels. A bulk copy brings 64
// channels of the pixels that these see, one more on every side, with zeros beyond the image's edges; all nine taps are
// multiplied from there.
namespace sam3::cuda {

namespace {

constexpr int kKernel = 3;
constexpr int kAcross = 8;  // pixels of a tile
constexpr int kDown = 32;
constexpr int kSeenAcross = kAcross + kKernel - 1;
constexpr int kSeenDown = kDown + kKernel - 1;
constexpr int kColumns = 128;  // channels of a tile
constexpr int kDepth = 64;     // channels of the image in one step
constexpr int kRowBytes = kDepth * 2;
constexpr int kSeenBytes = kSeenAcross * kSeenDown * kRowBytes;
constexpr int kSeenRoom = (kSeenBytes + 1023) / 1024 * 1024;
constexpr int kTapBytes = kColumns * kRowBytes;
constexpr int kImages = 2;  // stages
constexpr int kTaps = 6;
constexpr int kGroups = 2;  // warpgroups that multiply, 16 lines of pixels each
constexpr int kBlocks = 2;  // of 64 pixels that a warpgroup has
constexpr int kThreads = (kGroups + 1) * 128;
constexpr int kBytes = kImages * kSeenRoom + kTaps * kTapBytes + 1024 + 256;

struct Args {
    CUtensorMap image, kernel;
    const float* bias;
    const void* residual;
    void* out;
    int height, width, out_channels, depths;
    int tiles_across, tiles_down, tiles_deep, items;
    float least;  // 0 for ReLU; code for other activations, once for every result, would not fit the instruction cache
};

struct Shared {
    unsigned images, taps, barriers;

    __device__ explicit Shared(unsigned start)
        : images((start + 1023U) / 1024U * 1024U),
          taps(images + kImages * kSeenRoom),
          barriers(taps + kTaps * kTapBytes) {}
    __device__ unsigned image_full(int s) const { return barriers + 8 * s; }
    __device__ unsigned image_free(int s) const { return barriers + 8 * (kImages + s); }
    __device__ unsigned tap_full(int s) const { return barriers + 8 * (2 * kImages + s); }
    __device__ unsigned tap_free(int s) const { return barriers + 8 * (2 * kImages + kTaps + s); }
};

struct Tile {
    int x, y, n, column;

    static __device__ Tile at(const Args& a, int index) {
        Tile tile{};
        tile.column = index % a.tiles_deep * kColumns;
        index /= a.tiles_deep;
        tile.x = index % a.tiles_across * kAcross;
        index /= a.tiles_across;
        tile.y = index % a.tiles_down * kDown;
        tile.n = index / a.tiles_down;
        return tile;
    }
};

__device__ inline void fetch(const Args& a, const Shared& m) {
    Turn<kImages> image;
    Turn<kTaps> tap;
    for (int index = blockIdx.x; index < a.items; index += gridDim.x) {
        const Tile tile = Tile::at(a, index);
        for (int depth = 0; depth < a.depths; ++depth, image.next()) {
            wait_barrier(m.image_free(image.stage), image.parity ^ 1);
            arrive_expecting(m.image_full(image.stage), kSeenBytes);
            copy_box(m.images + image.stage * kSeenRoom, a.image, m.image_full(image.stage), depth * kDepth, tile.x - 1,
                     tile.y - 1, tile.n, 0);
            for (int t = 0; t < kKernel * kKernel; ++t, tap.next()) {
                wait_barrier(m.tap_free(tap.stage), tap.parity ^ 1);
                arrive_expecting(m.tap_full(tap.stage), kTapBytes);
                copy_box(m.taps + tap.stage * kTapBytes, a.kernel, m.tap_full(tap.stage),
                         (t * a.depths + depth) * kDepth, tile.column, 0, 0, 0);
            }
        }
    }
}

template <typename Out>
__device__ inline void store(const Args& a, const Tile& tile, const float (&sums)[kBlocks][kColumns / 2]) {
    const int lane = threadIdx.x % 32;
    const int group = threadIdx.x / 128 - 1;
    const int warp = threadIdx.x / 32 % 4;
#pragma unroll
    for (int b = 0; b < kBlocks; ++b)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            // Eight neighbouring pixels of a line are eight rows of the product.
            const int x = tile.x + lane / 4;
            const int y = tile.y + (group * kBlocks + b) * 8 + warp * 2 + half;
            if (x >= a.width || y >= a.height) continue;
            const int64_t pixel = (static_cast<int64_t>(tile.n) * a.height + y) * a.width + x;
            Out* const to = static_cast<Out*>(a.out) + pixel * a.out_channels;
            const Out* const more =
                a.residual == nullptr ? nullptr : static_cast<const Out*>(a.residual) + pixel * a.out_channels;
#pragma unroll
            for (int n = 0; n < kColumns / 8; ++n) {
                const int channel = tile.column + n * 8 + lane % 4 * 2;
                if (channel >= a.out_channels) continue;
                const float2 bias =
                    a.bias == nullptr ? float2{0, 0} : *reinterpret_cast<const float2*>(a.bias + channel);
                store_pair(to + channel, more == nullptr ? nullptr : more + channel,
                           fmaxf(sums[b][4 * n + 2 * half] + bias.x, a.least),
                           fmaxf(sums[b][4 * n + 2 * half + 1] + bias.y, a.least));
            }
        }
}

template <typename Out>
__device__ inline void multiply(const Args& a, const Shared& m) {
    const int lane = threadIdx.x % 32;
    const int group = threadIdx.x / 128 - 1;
    Turn<kImages> image;
    Turn<kTaps> tap;
    const auto done = [&](unsigned barrier) {
        if (lane == 0) arrive(barrier);
    };
    for (int index = blockIdx.x; index < a.items; index += gridDim.x) {
        const Tile tile = Tile::at(a, index);
        float sums[kBlocks][kColumns / 2];
        int last_tap = -1;
        for (int depth = 0; depth < a.depths; ++depth) {
            wait_barrier(m.image_full(image.stage), image.parity);
            const unsigned pixels = m.images + image.stage * kSeenRoom;
            for (int ky = 0; ky < kKernel; ++ky)
                for (int kx = 0; kx < kKernel; ++kx, tap.next()) {
                    wait_barrier(m.tap_full(tap.stage), tap.parity);
                    const unsigned weights = m.taps + tap.stage * kTapBytes;
                    begin_products();
#pragma unroll
                    for (int b = 0; b < kBlocks; ++b) {
                        const int line = (group * kBlocks + b) * 8 + ky;
                        const unsigned corner = pixels + (line * kSeenAcross + kx) * kRowBytes;
#pragma unroll
                        for (int s = 0; s < kDepth / 16; ++s)
                            Wgmma<kColumns>::of_shared(
                                sums[b], describe<kRowBytes>(corner + s * 32, 16, kSeenAcross * kRowBytes),
                                describe<kRowBytes>(weights + s * 32), depth + ky + kx + s > 0 ? 1 : 0);
                    }
                    commit_products();
                    wait_for_products<1>();  // those of the tap before
                    if (last_tap >= 0) done(m.tap_free(last_tap));
                    last_tap = tap.stage;
                }
            wait_for_products<0>();
            done(m.tap_free(last_tap));
            last_tap = -1;
            done(m.image_free(image.stage));
            image.next();
        }
        store<Out>(a, tile, sums);
    }
}

template <typename Out>
__global__ void __launch_bounds__(kThreads, 1) conv_kernel(const __grid_constant__ Args a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    const Shared m(shared_address(memory));
    if (threadIdx.x == 0) {
        constexpr int kReaders = 4 * kGroups;  // warps
        for (int s = 0; s < kImages; ++s) {
            init_barrier(m.image_full(s), 1);
            init_barrier(m.image_free(s), kReaders);
        }
        for (int s = 0; s < kTaps; ++s) {
            init_barrier(m.tap_full(s), 1);
            init_barrier(m.tap_free(s), kReaders);
        }
        publish_barriers();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        give_registers<40>();
        if (threadIdx.x == 0) fetch(a, m);
    } else {
        take_registers<232>();
        multiply<Out>(a, m);
    }
#else
    (void)a;
#endif
}

template <typename Out>
void start(const Args& a, int multiprocessors, cudaStream_t stream) {
    static const cudaError_t raised =
        cudaFuncSetAttribute(conv_kernel<Out>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    check(raised, "conv2d");
    conv_kernel<Out><<<static_cast<unsigned>(std::min(a.items, multiprocessors)), kThreads, kBytes, stream>>>(a);
}

}  // namespace

bool wgmma_takes(const ExecContext& context, const Conv2dArgs& args, const CudaConv2d& weights) {
    const bool simple = args.activation == Activation::none || args.activation == Activation::relu;
    return simple && device_of(context).is_hopper() && can_map_tensors() && weights.groups == 1 &&
           weights.stride == 1 && weights.kernel_h == kKernel && weights.kernel_w == kKernel && weights.padding == 1 &&
           weights.rows.weight.dtype() == DType::bf16 && weights.in_channels % kDepth == 0 &&
           weights.out_channels % 8 == 0 && args.x.is_dense();
}

void conv2d_wgmma(const ExecContext& context, const Conv2dArgs& args, const CudaConv2d& weights) {
    const Tensor x = as_type(context, args.x, DType::bf16);
    const int multiprocessors = device_of(context).multiprocessors();
    const CudaLinear& rows = weights.rows;
    Args a{};
    a.height = static_cast<int>(x.dim(1));
    a.width = static_cast<int>(x.dim(2));
    a.out_channels = static_cast<int>(weights.out_channels);
    a.depths = static_cast<int>(x.dim(3)) / kDepth;
    a.tiles_across = static_cast<int>(blocks_for(a.width, kAcross));
    a.tiles_down = static_cast<int>(blocks_for(a.height, kDown));
    a.tiles_deep = static_cast<int>(blocks_for(a.out_channels, kColumns));
    a.items = a.tiles_across * a.tiles_down * a.tiles_deep * static_cast<int>(x.dim(0));
    a.least = args.activation == Activation::relu ? 0.0F : -std::numeric_limits<float>::infinity();
    a.bias = rows.bias ? rows.bias.data<float>() : nullptr;
    a.residual = args.residual ? args.residual.raw() : nullptr;
    a.out = args.out.raw();
    a.image = tensor_map(x.raw(), {x.dim(3), x.dim(2), x.dim(1), x.dim(0), 1},
                         {x.stride(2), x.stride(1), x.stride(0), x.stride(0) * x.dim(0)},
                         {kDepth, kSeenAcross, kSeenDown, 1, 1}, kRowBytes);
    const int64_t k = rows.in_features;
    const int64_t whole = k * a.out_channels;
    a.kernel = tensor_map(rows.weight.raw(), {k, a.out_channels, 1, 1, 1}, {k, whole, whole, whole},
                          {kDepth, kColumns, 1, 1, 1}, kRowBytes);
    launch(context, "conv2d", [&](cudaStream_t stream) {
        for_float_type(args.out.dtype(), [&](auto type) {
            using T = typename decltype(type)::type;
            start<T>(a, multiprocessors, stream);
        });
    });
}

}  // namespace sam3::cuda
