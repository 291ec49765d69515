#include "runtime/cuda/hopper.cuh"
#include "runtime/cuda/tensor_map.h"
#include "runtime/cuda/weights.h"
#include "runtime/cuda/wgmma.cuh"

#include <algorithm>

// Convolutions with stride 1 for Hopper. A block takes 8 x 16 pixels and up to 256 channels of the result; for every
// tap of the kernel a bulk copy brings the pixels that the tap sees, with zeros beyond the edges. A 2 x 2 transposed
// convolution is the same with one tap, four times the channels and results that land in 2 x 2 blocks.
namespace sam3::cuda {

namespace {

constexpr int kAcross = 8;  // pixels of a tile
constexpr int kDown = 16;
constexpr int kPixels = kAcross * kDown;
constexpr int kDepth = 64;  // channels of a step
constexpr int kStages = 4;
constexpr int kGroups = 2;  // warpgroups that multiply, 64 pixels each
constexpr int kThreads = (kGroups + 1) * 128;
constexpr int kImageBytes = kPixels * kDepth * 2;

struct Args {
    CUtensorMap image, kernel;
    const float* bias;
    const void* residual;
    int64_t residual_batch;
    void* out;
    int height, width, out_channels;  // of the result before it is shuffled
    int kernel_h, kernel_w, padding, steps_each;
    int tiles_across, tiles_down, tiles_deep, items;
    Activation activation;
};

template <int kColumns>
struct Shared {
    static constexpr int kKernelBytes = kColumns * kDepth * 2;
    static constexpr int kBytes = kStages * (kImageBytes + kKernelBytes) + 1024 + 128;
    unsigned image, kernel, barriers;

    __device__ explicit Shared(unsigned start)
        : image((start + 1023U) / 1024U * 1024U),
          kernel(image + kStages * kImageBytes),
          barriers(kernel + kStages * kKernelBytes) {}
    __device__ unsigned full(int stage) const { return barriers + 8 * stage; }
    __device__ unsigned empty(int stage) const { return barriers + 8 * (kStages + stage); }
};

struct Tile {
    int x, y, n, column;

    static __device__ Tile at(const Args& a, int index, int columns) {
        Tile tile{};
        tile.column = index % a.tiles_deep * columns;
        index /= a.tiles_deep;
        tile.x = index % a.tiles_across * kAcross;
        index /= a.tiles_across;
        tile.y = index % a.tiles_down * kDown;
        tile.n = index / a.tiles_down;
        return tile;
    }
};

template <int kColumns>
__device__ inline void fetch(const Args& a, const Shared<kColumns>& m) {
    int stage = 0;
    int parity = 0;
    for (int index = blockIdx.x; index < a.items; index += gridDim.x) {
        const Tile tile = Tile::at(a, index, kColumns);
        int k = 0;
        for (int ky = 0; ky < a.kernel_h; ++ky)
            for (int kx = 0; kx < a.kernel_w; ++kx)
                for (int step = 0; step < a.steps_each; ++step, k += kDepth) {
                    wait_barrier(m.empty(stage), parity ^ 1);
                    arrive_expecting(m.full(stage), kImageBytes + Shared<kColumns>::kKernelBytes);
                    copy_box(m.image + stage * kImageBytes, a.image, m.full(stage), step * kDepth,
                             tile.x + kx - a.padding, tile.y + ky - a.padding, tile.n, 0);
                    copy_box(m.kernel + stage * Shared<kColumns>::kKernelBytes, a.kernel, m.full(stage), k, tile.column,
                             0, 0, 0);
                    if (++stage == kStages) {
                        stage = 0;
                        parity ^= 1;
                    }
                }
    }
}

template <typename Out>
__device__ inline void store_two(Out* to, const Out* more, float a, float b) {
    if constexpr (sizeof(Out) == 4) {
        const float2 r = more == nullptr ? float2{0, 0} : *reinterpret_cast<const float2*>(more);
        *reinterpret_cast<float2*>(to) = {a + r.x, b + r.y};
    } else {
        const float2 r =
            more == nullptr ? float2{0, 0} : __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(more));
        *reinterpret_cast<unsigned*>(to) = pack(a + r.x, b + r.y);
    }
}

// Where a result goes, inside its image.
template <bool kShuffled>
__device__ inline int64_t place(const Args& a, int x, int y, int channel) {
    if constexpr (!kShuffled) return (static_cast<int64_t>(y) * a.width + x) * a.out_channels + channel;
    const int channels = a.out_channels / 4;
    const int tap = channel / channels;
    return (static_cast<int64_t>(2 * y + tap / 2) * 2 * a.width + 2 * x + tap % 2) * channels + channel -
           tap * channels;
}

template <int kColumns, bool kShuffled, typename Out>
__device__ inline void multiply(const Args& a, const Shared<kColumns>& m) {
    const int lane = threadIdx.x % 32;
    const int group = threadIdx.x / 128 - 1;
    const int warp = threadIdx.x / 32 % 4;
    const int steps = a.kernel_h * a.kernel_w * a.steps_each;
    int stage = 0;
    int parity = 0;
    for (int index = blockIdx.x; index < a.items; index += gridDim.x) {
        const Tile tile = Tile::at(a, index, kColumns);
        float sums[kColumns / 2];
        int last_stage = 0;
        for (int step = 0; step < steps; ++step) {
            wait_barrier(m.full(stage), parity);
            const unsigned image = m.image + stage * kImageBytes + group * 64 * 128;
            const unsigned kernel = m.kernel + stage * Shared<kColumns>::kKernelBytes;
            begin_products();
#pragma unroll
            for (int s = 0; s < kDepth / 16; ++s)
                Wgmma<kColumns>::of_shared(sums, describe<128>(image + s * 32), describe<128>(kernel + s * 32),
                                           step + s > 0 ? 1 : 0);
            commit_products();
            // The step before this one is done when only this one is left.
            wait_for_products<1>();
            if (step > 0 && lane == 0) arrive(m.empty(last_stage));
            last_stage = stage;
            if (++stage == kStages) {
                stage = 0;
                parity ^= 1;
            }
        }
        wait_for_products<0>();
        if (lane == 0) arrive(m.empty(last_stage));
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int pixel = group * 64 + warp * 16 + half * 8 + lane / 4;
            const int x = tile.x + pixel % kAcross;
            const int y = tile.y + pixel / kAcross;
            if (x >= a.width || y >= a.height) continue;
            const int64_t image = static_cast<int64_t>(a.height) * a.width * a.out_channels;
            Out* const to = static_cast<Out*>(a.out) + tile.n * image;
            const Out* const more =
                a.residual == nullptr ? nullptr : static_cast<const Out*>(a.residual) + tile.n * a.residual_batch;
#pragma unroll
            for (int n = 0; n < kColumns / 8; ++n) {
                const int channel = tile.column + n * 8 + lane % 4 * 2;
                if (channel >= a.out_channels) continue;
                const float2 bias =
                    a.bias == nullptr ? float2{0, 0} : *reinterpret_cast<const float2*>(a.bias + channel);
                const int64_t at = place<kShuffled>(a, x, y, channel);
                store_two(to + at, more == nullptr ? nullptr : more + at,
                          activate(sums[4 * n + 2 * half] + bias.x, a.activation),
                          activate(sums[4 * n + 2 * half + 1] + bias.y, a.activation));
            }
        }
    }
}

template <int kColumns, bool kShuffled, typename Out>
__global__ void __launch_bounds__(kThreads, 1) conv_kernel(const __grid_constant__ Args a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    const Shared<kColumns> m(shared_address(memory));
    if (threadIdx.x == 0) {
        for (int s = 0; s < kStages; ++s) {
            init_barrier(m.full(s), 1);
            init_barrier(m.empty(s), 4 * kGroups);
        }
        publish_barriers();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        give_registers<40>();
        if (threadIdx.x == 0) fetch<kColumns>(a, m);
    } else {
        take_registers<232>();
        multiply<kColumns, kShuffled, Out>(a, m);
    }
#else
    (void)a;
#endif
}

template <int kColumns, bool kShuffled, typename Out>
void start(const Args& a, int multiprocessors, cudaStream_t stream) {
    const auto kernel = conv_kernel<kColumns, kShuffled, Out>;
    static const cudaError_t raised =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shared<kColumns>::kBytes);
    check(raised, "conv2d");
    kernel<<<static_cast<unsigned>(std::min(a.items, multiprocessors)), kThreads, Shared<kColumns>::kBytes, stream>>>(
        a);
}

void run(const ExecContext& context, Args a, const Tensor& given, const CudaLinear& rows, bool shuffled,
         const Tensor& out) {
    const Tensor x = as_type(context, given, DType::bf16);
    const int multiprocessors = device_of(context).multiprocessors();
    a.steps_each = static_cast<int>(x.dim(3)) / kDepth;
    a.out_channels = static_cast<int>(rows.out_features);
    a.tiles_across = static_cast<int>(blocks_for(a.width, kAcross));
    a.tiles_down = static_cast<int>(blocks_for(a.height, kDown));
    const int tiles = a.tiles_across * a.tiles_down * static_cast<int>(x.dim(0));
    // Narrow tiles where wide ones would leave multiprocessors idle in the last round.
    const auto rounds = [&](int columns) {
        return static_cast<int>(blocks_for(tiles * blocks_for(a.out_channels, columns), multiprocessors)) * columns;
    };
    const bool wide = rounds(256) <= rounds(128);
    const int columns = wide ? 256 : 128;
    a.tiles_deep = static_cast<int>(blocks_for(a.out_channels, columns));
    a.items = tiles * a.tiles_deep;
    a.bias = rows.bias ? rows.bias.data<float>() : nullptr;
    a.out = out.raw();
    a.image = tensor_map(x.raw(), {x.dim(3), x.dim(2), x.dim(1), x.dim(0), 1},
                         {x.stride(2), x.stride(1), x.stride(0), x.stride(0) * x.dim(0)},
                         {kDepth, kAcross, kDown, 1, 1}, 128);
    const int64_t k = rows.in_features;
    a.kernel =
        tensor_map(rows.weight.raw(), {k, a.out_channels, 1, 1, 1},
                   {k, k * a.out_channels, k * a.out_channels, k * a.out_channels}, {kDepth, columns, 1, 1, 1}, 128);
    launch(context, "conv2d", [&](cudaStream_t stream) {
        for_float_type(out.dtype(), [&](auto type) {
            using T = typename decltype(type)::type;
            if (shuffled)
                wide ? start<256, true, T>(a, multiprocessors, stream)
                     : start<128, true, T>(a, multiprocessors, stream);
            else
                wide ? start<256, false, T>(a, multiprocessors, stream)
                     : start<128, false, T>(a, multiprocessors, stream);
        });
    });
}

bool takes(const ExecContext& context, const CudaLinear& rows, const Tensor& x) {
    return device_of(context).is_hopper() && can_map_tensors() && rows.weight.dtype() == DType::bf16 &&
           x.dim(3) % kDepth == 0 && x.is_dense();
}

}  // namespace

bool wgmma_takes(const ExecContext& context, const CudaConv2d& weights, const Tensor& x) {
    return weights.groups == 1 && weights.stride == 1 && weights.out_channels % 8 == 0 &&
           takes(context, weights.rows, x);
}

void conv2d_wgmma(const ExecContext& context, const Conv2dArgs& args, const CudaConv2d& weights) {
    Args a{};
    a.height = static_cast<int>(args.out.dim(1));
    a.width = static_cast<int>(args.out.dim(2));
    a.kernel_h = weights.kernel_h;
    a.kernel_w = weights.kernel_w;
    a.padding = weights.padding;
    a.activation = args.activation;
    if (args.residual) {
        a.residual = args.residual.raw();
        a.residual_batch = args.residual.stride(0);
    }
    run(context, a, args.x, weights.rows, false, args.out);
}

bool wgmma_takes_transposed(const ExecContext& context, const CudaLinear& weights, const Tensor& x) {
    return weights.out_features % 32 == 0 && takes(context, weights, x);
}

void conv_transpose_wgmma(const ExecContext& context, const ConvTranspose2x2Args& args, const CudaLinear& weights) {
    Args a{};
    a.height = static_cast<int>(args.x.dim(1));
    a.width = static_cast<int>(args.x.dim(2));
    a.kernel_h = a.kernel_w = 1;
    a.activation = args.activation;
    if (args.residual) {
        a.residual = args.residual.raw();
        a.residual_batch = args.residual.stride(0);
    }
    run(context, a, args.x, weights, true, args.out);
}

}  // namespace sam3::cuda
