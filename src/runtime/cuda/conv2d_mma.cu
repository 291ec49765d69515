#include "runtime/cuda/mma.cuh"
#include "runtime/cuda/weights.h"

#include <limits>

// Convolutions on tensor cores: a product whose rows are the patches of the output pixels, fetched from the image tap
// by tap. A block computes 128 pixels by 128 channels.
namespace sam3::cuda {

namespace {

constexpr int kRows = 128;     // output pixels of a block
constexpr int kColumns = 128;  // output channels of a block
constexpr int kDepth = 64;     // channels of one tap that a step multiplies
constexpr int kChunks = kDepth / 8;
constexpr int kStages = 3;
constexpr int kThreads = 256;
constexpr int kTile = kRows * kChunks * 16;  // bytes of either side's tile
constexpr int kBytes = kStages * 2 * kTile;
constexpr int kRowTiles = 4;     // of 16 pixels, a warp: warps stand 2 x 4
constexpr int kColumnTiles = 4;  // of 8 channels

struct ConvArgs {
    const bf16* x;
    const bf16* weight;
    const float* bias;
    const void* residual;
    void* out;
    int height, width, channels, out_height, out_width, out_channels;
    int kernel_h, kernel_w, stride, padding;
    int pixels;
    float least;  // 0 for ReLU
};

template <typename Out>
__global__ void __launch_bounds__(kThreads, 2) conv_kernel(ConvArgs a) {
    extern __shared__ __align__(128) unsigned char memory[];
    const unsigned shared = shared_address(memory);
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp = thread / 32;
    const int first_pixel = blockIdx.x * kRows;
    const int first_channel = blockIdx.y * kColumns;

    // Each thread fetches the same 16 bytes' place of four rows, on either side.
    constexpr int kEach = kRows * kChunks / kThreads;
    const int chunk = thread % kChunks;
    int image_row[kEach];  // of the patch's corner, and where its image begins
    int image_column[kEach];
    const bf16* image[kEach];
    const bf16* kernel[kEach];
    bool has_pixel[kEach];
    bool has_channel[kEach];
    const int taps = a.kernel_h * a.kernel_w;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        const int row = thread / kChunks + i * (kThreads / kChunks);
        const int pixel = first_pixel + row;
        has_pixel[i] = pixel < a.pixels;
        const int within = pixel % (a.out_height * a.out_width);
        const int n = pixel / (a.out_height * a.out_width);
        image_row[i] = within / a.out_width * a.stride - a.padding;
        image_column[i] = within % a.out_width * a.stride - a.padding;
        image[i] = a.x + static_cast<int64_t>(n) * a.height * a.width * a.channels + chunk * 8;
        has_channel[i] = first_channel + row < a.out_channels;
        kernel[i] = a.weight + static_cast<int64_t>(first_channel + row) * taps * a.channels + chunk * 8;
    }

    const int steps_each = a.channels / kDepth;
    const int steps = taps * steps_each;
    int next_step = 0;  // that is to be fetched, and its place
    int next_tap_row = 0;
    int next_tap_column = 0;
    int next_depth = 0;
    const auto fetch = [&] {
        if (next_step < steps) {
            const unsigned at = shared + next_step % kStages * 2 * kTile;
#pragma unroll
            for (int i = 0; i < kEach; ++i) {
                const int row = thread / kChunks + i * (kThreads / kChunks);
                const int y = image_row[i] + next_tap_row;
                const int x = image_column[i] + next_tap_column;
                const bool valid = has_pixel[i] && y >= 0 && y < a.height && x >= 0 && x < a.width;
                const bf16* from =
                    image[i] + (valid ? (static_cast<int64_t>(y) * a.width + x) * a.channels + next_depth : 0);
                copy_async(at + swizzled<kChunks>(row, chunk) * 16, valid ? from : a.x, valid);
                const int64_t k = static_cast<int64_t>(next_tap_row * a.kernel_w + next_tap_column) * a.channels;
                copy_async(at + kTile + swizzled<kChunks>(row, chunk) * 16,
                           has_channel[i] ? kernel[i] + k + next_depth : a.weight, has_channel[i]);
            }
            ++next_step;
            next_depth += kDepth;
            if (next_depth == a.channels) {
                next_depth = 0;
                if (++next_tap_column == a.kernel_w) {
                    next_tap_column = 0;
                    ++next_tap_row;
                }
            }
        }
        commit_copies();
    };

    float sums[kRowTiles][kColumnTiles][4] = {};
    const int warp_row = warp % 2 * 64;
    const int warp_column = warp / 2 * 32;
    for (int i = 0; i + 1 < kStages; ++i) fetch();
    for (int step = 0; step < steps; ++step) {
        wait_for_copies<kStages - 2>();
        __syncthreads();
        fetch();
        const unsigned rows_at = shared + step % kStages * 2 * kTile;
        const unsigned columns_at = rows_at + kTile;
#pragma unroll
        for (int s = 0; s < kDepth / 16; ++s) {
            unsigned left[kRowTiles][4];
            unsigned right[kColumnTiles / 2][4];
#pragma unroll
            for (int m = 0; m < kRowTiles; ++m)
                load_matrices(left[m],
                              rows_at + swizzled<kChunks>(warp_row + m * 16 + lane % 16, s * 2 + lane / 16) * 16);
#pragma unroll
            for (int n = 0; n < kColumnTiles / 2; ++n)
                load_matrices(right[n], columns_at + swizzled<kChunks>(warp_column + n * 16 + lane / 16 * 8 + lane % 8,
                                                                       s * 2 + lane / 8 % 2) *
                                                         16);
#pragma unroll
            for (int m = 0; m < kRowTiles; ++m)
#pragma unroll
                for (int n = 0; n < kColumnTiles; ++n)
                    multiply_add(sums[m][n], left[m], right[n / 2][n % 2 * 2], right[n / 2][n % 2 * 2 + 1]);
        }
    }

#pragma unroll
    for (int m = 0; m < kRowTiles; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int pixel = first_pixel + warp_row + m * 16 + half * 8 + lane / 4;
            if (pixel >= a.pixels) continue;
#pragma unroll
            for (int n = 0; n < kColumnTiles; ++n) {
                const int channel = first_channel + warp_column + n * 8 + lane % 4 * 2;
                if (channel >= a.out_channels) continue;
                const float2 bias =
                    a.bias == nullptr ? float2{0, 0} : *reinterpret_cast<const float2*>(a.bias + channel);
                const int64_t at = static_cast<int64_t>(pixel) * a.out_channels + channel;
                store_pair(static_cast<Out*>(a.out) + at,
                           a.residual == nullptr ? nullptr : static_cast<const Out*>(a.residual) + at,
                           fmaxf(sums[m][n][2 * half] + bias.x, a.least),
                           fmaxf(sums[m][n][2 * half + 1] + bias.y, a.least));
            }
        }
}

template <typename Out>
void start(const ConvArgs& a, cudaStream_t stream) {
    static const cudaError_t raised =
        cudaFuncSetAttribute(conv_kernel<Out>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    check(raised, "conv2d");
    const dim3 grid(static_cast<unsigned>(blocks_for(a.pixels, kRows)),
                    static_cast<unsigned>(blocks_for(a.out_channels, kColumns)));
    conv_kernel<Out><<<grid, kThreads, kBytes, stream>>>(a);
}

}  // namespace

bool mma_takes(const Conv2dArgs& args, const CudaConv2d& weights) {
    const bool simple = args.activation == Activation::none || args.activation == Activation::relu;
    return simple && weights.groups == 1 && weights.rows.weight.dtype() == DType::bf16 &&
           weights.in_channels % kDepth == 0 && weights.out_channels % 8 == 0 && args.x.numel() < int64_t{1} << 40;
}

void conv2d_mma(const ExecContext& context, const Conv2dArgs& args, const CudaConv2d& weights) {
    const Tensor x = as_type(context, args.x, DType::bf16);
    ConvArgs a{};
    a.x = x.data<bf16>();
    a.weight = weights.rows.weight.data<bf16>();
    a.bias = weights.rows.bias ? weights.rows.bias.data<float>() : nullptr;
    a.residual = args.residual ? args.residual.raw() : nullptr;
    a.out = args.out.raw();
    a.height = static_cast<int>(x.dim(1));
    a.width = static_cast<int>(x.dim(2));
    a.channels = static_cast<int>(x.dim(3));
    a.out_height = static_cast<int>(args.out.dim(1));
    a.out_width = static_cast<int>(args.out.dim(2));
    a.out_channels = static_cast<int>(args.out.dim(3));
    a.kernel_h = weights.kernel_h;
    a.kernel_w = weights.kernel_w;
    a.stride = weights.stride;
    a.padding = weights.padding;
    a.pixels = static_cast<int>(args.out.numel() / args.out.dim(3));
    a.least = args.activation == Activation::relu ? 0.0F : -std::numeric_limits<float>::infinity();
    launch(context, "conv2d", [&](cudaStream_t stream) {
        if (args.out.dtype() == DType::f32)
            start<float>(a, stream);
        else
            start<bf16>(a, stream);
    });
}

}  // namespace sam3::cuda
