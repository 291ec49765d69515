#include "runtime/cuda/elements.cuh"
#include "runtime/cuda/weights.h"

// A kernel of 7 x 7 for each channel. A thread computes eight neighbouring pixels of a line, so that what it reads of a
// line serves all of them; neighbouring threads have neighbouring channels.
namespace sam3::cuda {

namespace {

constexpr int kThreads = 128;
constexpr int kSide = 7;
constexpr int kPixels = 8;

struct DepthwiseArgs {
    const float *taps, *bias;  // [kSide, kSide, C], [C]
    int height, width, channels, out_height, out_width, padding;
    int strips;  // of a line
    int64_t items;
    Activation activation;
};

template <typename In, typename Out>
__global__ void __launch_bounds__(kThreads)
    depthwise_kernel(DepthwiseArgs a, const In* x, const Out* residual, Out* out) {
    const int64_t item = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (item >= a.items) return;
    const int64_t strip = item / a.channels;
    const int c = static_cast<int>(item - strip * a.channels);
    const int64_t line = strip / a.strips;
    const int first = static_cast<int>(strip - line * a.strips) * kPixels;
    const int n = static_cast<int>(line / a.out_height);
    const int oy = static_cast<int>(line - static_cast<int64_t>(n) * a.out_height);
    float sums[kPixels];
#pragma unroll
    for (int j = 0; j < kPixels; ++j) sums[j] = a.bias == nullptr ? 0.0F : a.bias[c];
    for (int ky = 0; ky < kSide; ++ky) {
        const int y = oy + ky - a.padding;
        if (y < 0 || y >= a.height) continue;
        const In* const from = x + (static_cast<int64_t>(n) * a.height + y) * a.width * a.channels + c;
        float seen[kPixels + kSide - 1];
#pragma unroll
        for (int i = 0; i < kPixels + kSide - 1; ++i) {
            const int column = first + i - a.padding;
            seen[i] =
                column >= 0 && column < a.width ? to_float(from[static_cast<int64_t>(column) * a.channels]) : 0.0F;
        }
#pragma unroll
        for (int kx = 0; kx < kSide; ++kx) {
            const float tap = a.taps[(ky * kSide + kx) * a.channels + c];
#pragma unroll
            for (int j = 0; j < kPixels; ++j) sums[j] += seen[j + kx] * tap;
        }
    }
#pragma unroll
    for (int j = 0; j < kPixels; ++j) {
        if (first + j >= a.out_width) continue;
        const int64_t at = (line * a.out_width + first + j) * a.channels + c;
        const float sum = activate(sums[j], a.activation);
        out[at] = from_float<Out>(residual == nullptr ? sum : sum + to_float(residual[at]));
    }
}

}  // namespace

bool depthwise_takes(const CudaConv2d& weights) {
    return weights.groups == weights.in_channels && weights.groups == weights.out_channels && weights.stride == 1 &&
           weights.kernel_h == kSide && weights.kernel_w == kSide;
}

void conv2d_depthwise(const ExecContext& context, const Conv2dArgs& args, const CudaConv2d& weights) {
    DepthwiseArgs a{};
    a.taps = weights.taps.data<float>();
    a.bias = weights.bias ? weights.bias.data<float>() : nullptr;
    a.height = static_cast<int>(args.x.dim(1));
    a.width = static_cast<int>(args.x.dim(2));
    a.channels = static_cast<int>(args.x.dim(3));
    a.out_height = static_cast<int>(args.out.dim(1));
    a.out_width = static_cast<int>(args.out.dim(2));
    a.padding = weights.padding;
    a.strips = static_cast<int>(blocks_for(a.out_width, kPixels));
    a.items = args.out.dim(0) * a.out_height * a.strips * a.channels;
    a.activation = args.activation;
    launch(context, "conv2d", [&](cudaStream_t stream) {
        for_float_type(args.x.dtype(), [&](auto in) {
            for_float_type(args.out.dtype(), [&](auto out) {
                using In = typename decltype(in)::type;
                using Out = typename decltype(out)::type;
                depthwise_kernel<In, Out>
                    <<<static_cast<unsigned>(blocks_for(a.items, kThreads)), kThreads, 0, stream>>>(
                        a, args.x.data<In>(), args.residual ? args.residual.data<Out>() : nullptr,
                        args.out.data<Out>());
            });
        });
    });
}

}  // namespace sam3::cuda
