#include "runtime/cuda/elements.cuh"
#include "runtime/cuda/weights.h"

// Convolutions of f32 maps with few channels, as those that make a small map of a mask: as products of patches they
// would be mostly patches. A thread computes some channels of two pixels; the kernel lies in shared memory.
namespace sam3::cuda {

namespace {

constexpr int kThreads = 128;
constexpr int kPixels = 2;  // of a thread
constexpr int64_t kMostKernelBytes = 48 << 10;

struct FewArgs {
    const float *x, *weight, *bias, *residual;
    float* out;
    int height, width, out_height, out_width, out_channels;
    int kernel_h, kernel_w, stride, padding;
    int pixels;
    Activation activation;
};

// sums += x * kernel row, of each pixel
template <int kOut>
__device__ inline void add_products(float (&sums)[kPixels][kOut], const float (&x)[kPixels], const float* row) {
#pragma unroll
    for (int o = 0; o < kOut; o += 4) {
        const float4 w = load4(row + o);
#pragma unroll
        for (int p = 0; p < kPixels; ++p) {
            sums[p][o] += x[p] * w.x;
            sums[p][o + 1] += x[p] * w.y;
            sums[p][o + 2] += x[p] * w.z;
            sums[p][o + 3] += x[p] * w.w;
        }
    }
}

template <int kIn, int kOut>
__global__ void __launch_bounds__(kThreads) few_kernel(FewArgs a) {
    extern __shared__ __align__(16) float kernel[];  // [kh, kw, kIn, kOut]
    const int depth = a.kernel_h * a.kernel_w * kIn;
    const int first_channel = blockIdx.y * kOut;
    for (int i = threadIdx.x; i < depth * kOut; i += kThreads)
        kernel[i] = a.weight[static_cast<int64_t>(first_channel + i % kOut) * depth + i / kOut];
    __syncthreads();

    int pixel[kPixels], row[kPixels], column[kPixels];
    const float* image[kPixels];
    float sums[kPixels][kOut];
#pragma unroll
    for (int p = 0; p < kPixels; ++p) {
        pixel[p] = (blockIdx.x * kPixels + p) * kThreads + threadIdx.x;
        const int index = min(pixel[p], a.pixels - 1);
        const int line = index / a.out_width;
        const int n = line / a.out_height;
        column[p] = (index - line * a.out_width) * a.stride - a.padding;
        row[p] = (line - n * a.out_height) * a.stride - a.padding;
        image[p] = a.x + static_cast<int64_t>(n) * a.height * a.width * kIn;
#pragma unroll
        for (int o = 0; o < kOut; ++o) sums[p][o] = a.bias == nullptr ? 0.0F : a.bias[first_channel + o];
    }
    const float* tap = kernel;
    for (int ky = 0; ky < a.kernel_h; ++ky)
        for (int kx = 0; kx < a.kernel_w; ++kx, tap += kIn * kOut) {
            const float* from[kPixels];
            bool inside[kPixels];
#pragma unroll
            for (int p = 0; p < kPixels; ++p) {
                const int y = row[p] + ky;
                const int x = column[p] + kx;
                inside[p] = y >= 0 && y < a.height && x >= 0 && x < a.width;
                from[p] = image[p] + (static_cast<int64_t>(y) * a.width + x) * kIn;
            }
            if constexpr (kIn == 1) {
                float x[kPixels];
#pragma unroll
                for (int p = 0; p < kPixels; ++p) x[p] = inside[p] ? *from[p] : 0.0F;
                add_products<kOut>(sums, x, tap);
            } else {
#pragma unroll
                for (int c = 0; c < kIn; c += 4) {
                    float x[4][kPixels];
#pragma unroll
                    for (int p = 0; p < kPixels; ++p) {
                        const float4 v = inside[p] ? load4(from[p] + c) : float4{0, 0, 0, 0};
                        x[0][p] = v.x, x[1][p] = v.y, x[2][p] = v.z, x[3][p] = v.w;
                    }
#pragma unroll
                    for (int i = 0; i < 4; ++i) add_products<kOut>(sums, x[i], tap + (c + i) * kOut);
                }
            }
        }
#pragma unroll
    for (int p = 0; p < kPixels; ++p) {
        if (pixel[p] >= a.pixels) continue;
        const int64_t at = static_cast<int64_t>(pixel[p]) * a.out_channels + first_channel;
#pragma unroll
        for (int o = 0; o < kOut; o += 4) {
            float4 v = {activate(sums[p][o], a.activation), activate(sums[p][o + 1], a.activation),
                        activate(sums[p][o + 2], a.activation), activate(sums[p][o + 3], a.activation)};
            if (a.residual != nullptr) {
                const float4 r = load4(a.residual + at + o);
                v = {v.x + r.x, v.y + r.y, v.z + r.z, v.w + r.w};
            }
            store4(a.out + at + o, v);
        }
    }
}

template <int kIn>
void start(const FewArgs& a, cudaStream_t stream) {
    const auto across = static_cast<unsigned>(blocks_for(a.pixels, kThreads * kPixels));
    const int row_bytes = a.kernel_h * a.kernel_w * kIn * static_cast<int>(sizeof(float));
    if (a.out_channels % 16 == 0)
        few_kernel<kIn, 16><<<dim3(across, static_cast<unsigned>(a.out_channels / 16)), kThreads,
                              static_cast<size_t>(row_bytes) * 16, stream>>>(a);
    else
        few_kernel<kIn, 4><<<dim3(across, static_cast<unsigned>(a.out_channels / 4)), kThreads,
                             static_cast<size_t>(row_bytes) * 4, stream>>>(a);
}

}  // namespace

bool few_takes(const Conv2dArgs& args, const CudaConv2d& weights) {
    const int64_t in = weights.in_channels;
    for (const Tensor& map : {args.x, args.residual, args.out})  // four values at a time
        if (map && reinterpret_cast<uintptr_t>(map.raw()) % 16 != 0) return false;
    const int64_t bytes = weights.rows.in_features * 16 * static_cast<int64_t>(sizeof(float));
    return weights.groups == 1 && weights.rows.weight.dtype() == DType::f32 && (in == 1 || in == 4 || in == 16) &&
           weights.out_channels % 4 == 0 && weights.out_channels <= 64 && bytes <= kMostKernelBytes &&
           args.out.dtype() == DType::f32 && args.out.numel() / args.out.dim(3) < int64_t{1} << 30;
}

void conv2d_few(const ExecContext& context, const Conv2dArgs& args, const CudaConv2d& weights) {
    const Tensor x = as_type(context, args.x, DType::f32);
    FewArgs a{};
    a.x = x.data<float>();
    a.weight = weights.rows.weight.data<float>();
    a.bias = weights.rows.bias ? weights.rows.bias.data<float>() : nullptr;
    a.residual = args.residual ? args.residual.data<float>() : nullptr;
    a.out = args.out.data<float>();
    a.height = static_cast<int>(x.dim(1));
    a.width = static_cast<int>(x.dim(2));
    a.out_height = static_cast<int>(args.out.dim(1));
    a.out_width = static_cast<int>(args.out.dim(2));
    a.out_channels = static_cast<int>(args.out.dim(3));
    a.kernel_h = weights.kernel_h;
    a.kernel_w = weights.kernel_w;
    a.stride = weights.stride;
    a.padding = weights.padding;
    a.pixels = static_cast<int>(args.out.numel() / args.out.dim(3));
    a.activation = args.activation;
    launch(context, "conv2d", [&](cudaStream_t stream) {
        if (weights.in_channels == 1)
            start<1>(a, stream);
        else if (weights.in_channels == 4)
            start<4>(a, stream);
        else
            start<16>(a, stream);
    });
}

}  // namespace sam3::cuda
