#include "runtime/cuda/elements.cuh"
#include "runtime/cuda/strided.cuh"
#include "runtime/cuda/weights.h"

#include <algorithm>

namespace sam3::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostPatchBytes = int64_t{512} << 20;

struct Geometry {
    int height, width, channels;  // of the input
    int out_height, out_width;
    int kernel_h, kernel_w, stride, stride_x, padding;
};

Geometry geometry_of(const Conv2dArgs& args) {
    const PackedConv2d& w = *args.weights;
    return {static_cast<int>(args.x.dim(1)),
            static_cast<int>(args.x.dim(2)),
            static_cast<int>(args.x.dim(3)),
            static_cast<int>(args.out.dim(1)),
            static_cast<int>(args.out.dim(2)),
            w.kernel_h,
            w.kernel_w,
            w.stride,
            w.stride,
            w.padding};
}

// Patches that lie side by side and do not reach over the edge: a patch's row is read as one pixel of many channels.
Geometry folded(Geometry g) {
    if (g.stride != g.kernel_w || g.padding != 0 || g.width % g.kernel_w != 0) return g;
    g.channels *= g.kernel_w;
    g.width /= g.kernel_w;
    g.kernel_w = g.stride_x = 1;
    return g;
}

struct Patches {
    uint32_t items;
    Divisor pieces;            // of a row of patches, kEach channels each
    Divisor across, kernel_w;  // of them: of a pixel
    Divisor out_width, out_height;
    int64_t first;  // row
};

// Every output pixel's patch as a row: [rows, kh, kw, C]; kEach neighbouring channels a thread.
template <typename In, typename Out, int kEach>
__global__ void patches_kernel(const In* x, Out* patches, Geometry g, Patches p) {
    const uint32_t item = blockIdx.x * blockDim.x + threadIdx.x;
    if (item >= p.items) return;
    auto row = item;
    uint32_t piece = p.pieces.take(row);
    row += static_cast<uint32_t>(p.first);
    const auto c = static_cast<int>(p.across.take(piece)) * kEach;
    const auto kx = static_cast<int>(p.kernel_w.take(piece));
    const auto ky = static_cast<int>(piece);
    const auto ox = static_cast<int>(p.out_width.take(row));
    const auto oy = static_cast<int>(p.out_height.take(row));
    const int y = oy * g.stride - g.padding + ky;
    const int x_at = ox * g.stride_x - g.padding + kx;
    const bool inside = y >= 0 && y < g.height && x_at >= 0 && x_at < g.width;
    const In* from = x + ((static_cast<int64_t>(row) * g.height + y) * g.width + x_at) * g.channels + c;
    Out* const to = patches + static_cast<int64_t>(item) * kEach;
    if constexpr (kEach == 4) {
        store4(to, inside ? load4(from) : float4{0, 0, 0, 0});
    } else if constexpr (kEach == 2) {
        const float low = inside ? to_float(from[0]) : 0.0F;
        const float high = inside ? to_float(from[1]) : 0.0F;
        to[0] = from_float<Out>(low);
        to[1] = from_float<Out>(high);
    } else {
        *to = from_float<Out>(inside ? to_float(*from) : 0.0F);
    }
}

void fill_patches(const ExecContext& context, const Conv2dArgs& args, const Tensor& patches, int64_t first) {
    const Geometry g = folded(geometry_of(args));
    launch(context, "conv2d", [&](cudaStream_t stream) {
        for_float_type(args.x.dtype(), [&](auto in) {
            for_float_type(patches.dtype(), [&](auto out) {
                using In = typename decltype(in)::type;
                using Out = typename decltype(out)::type;
                const auto start = [&](auto kernel, int each) {
                    const uint32_t items = count_of("conv2d", patches.numel() / each);
                    const Patches p{items,
                                    Divisor(patches.dim(1) / each),
                                    Divisor(g.channels / each),
                                    Divisor(g.kernel_w),
                                    Divisor(g.out_width),
                                    Divisor(g.out_height),
                                    first};
                    kernel<<<static_cast<unsigned>(blocks_for(items, kThreads)), kThreads, 0, stream>>>(
                        args.x.data<In>(), patches.data<Out>(), g, p);
                };
                if (g.channels % 4 == 0)
                    start(patches_kernel<In, Out, 4>, 4);
                else if (g.channels % 2 == 0)
                    start(patches_kernel<In, Out, 2>, 2);
                else
                    start(patches_kernel<In, Out, 1>, 1);
            });
        });
    });
}

// A convolution as a product of patches with the kernel, some rows at a time.
void by_patches(const ExecContext& context, const Conv2dArgs& args, const CudaConv2d& weights) {
    const DType type = weights.rows.weight.dtype();
    const int64_t rows = args.out.numel() / args.out.dim(3);
    const int64_t row_bytes = weights.rows.in_features * static_cast<int64_t>(size_of(type));
    const int64_t step = std::max<int64_t>(1, std::min(rows, kMostPatchBytes / row_bytes));
    const Tensor out = args.out.reshape({rows, args.out.dim(3)});
    const Tensor residual = args.residual ? args.residual.reshape({rows, args.out.dim(3)}) : Tensor();
    for (int64_t first = 0; first < rows; first += step) {
        const int64_t count = std::min(step, rows - first);
        const Tensor patches = new_tensor(context, {count, weights.rows.in_features}, type);
        fill_patches(context, args, patches, first);
        multiply_rows(context, patches, weights.rows, args.activation,
                      residual ? residual.slice(0, first, count) : Tensor(), out.slice(0, first, count));
    }
}

// Grouped, above all depthwise: one thread an output value.
template <typename In, typename Out>
__global__ void grouped_kernel(const In* x, const float* taps, const float* bias, const Out* residual, Out* out,
                               Geometry g, int out_channels, int group_in, int group_out, int64_t items,
                               Activation activation) {
    const int64_t item = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (item >= items) return;
    const int o = static_cast<int>(item % out_channels);
    const int64_t row = item / out_channels;
    const int ox = static_cast<int>(row % g.out_width);
    const int oy = static_cast<int>(row / g.out_width % g.out_height);
    const int64_t n = row / g.out_width / g.out_height;
    const int first = o / group_out * group_in;
    float sum = bias == nullptr ? 0.0F : bias[o];
    for (int ky = 0; ky < g.kernel_h; ++ky) {
        const int y = oy * g.stride - g.padding + ky;
        if (y < 0 || y >= g.height) continue;
        for (int kx = 0; kx < g.kernel_w; ++kx) {
            const int at = ox * g.stride - g.padding + kx;
            if (at < 0 || at >= g.width) continue;
            const In* pixel = x + ((n * g.height + y) * g.width + at) * g.channels + first;
            const float* tap = taps + static_cast<int64_t>(ky * g.kernel_w + kx) * group_in * out_channels + o;
            for (int i = 0; i < group_in; ++i) sum += to_float(pixel[i]) * tap[static_cast<int64_t>(i) * out_channels];
        }
    }
    sum = activate(sum, activation);
    out[item] = from_float<Out>(residual == nullptr ? sum : sum + to_float(residual[item]));
}

void by_groups(const ExecContext& context, const Conv2dArgs& args, const CudaConv2d& weights) {
    const Geometry g = geometry_of(args);
    launch(context, "conv2d", [&](cudaStream_t stream) {
        for_float_type(args.x.dtype(), [&](auto in) {
            for_float_type(args.out.dtype(), [&](auto out) {
                using In = typename decltype(in)::type;
                using Out = typename decltype(out)::type;
                const int64_t items = args.out.numel();
                grouped_kernel<In, Out><<<static_cast<unsigned>(blocks_for(items, kThreads)), kThreads, 0, stream>>>(
                    args.x.data<In>(), weights.taps.data<float>(), weights.bias ? weights.bias.data<float>() : nullptr,
                    args.residual ? args.residual.data<Out>() : nullptr, args.out.data<Out>(), g,
                    static_cast<int>(weights.out_channels), static_cast<int>(weights.in_channels / weights.groups),
                    static_cast<int>(weights.out_channels / weights.groups), items, args.activation);
            });
        });
    });
}

// PyTorch's [out, in, kh, kw] -> [out, kh, kw, in], or [kh, kw, in, out] for grouped ones.
Tensor reordered(const Tensor& weight, bool taps_first) {
    const int64_t out = weight.dim(0);
    const int64_t in = weight.dim(1);
    const int64_t area = weight.dim(2) * weight.dim(3);
    Tensor result = taps_first ? Tensor::host({area * in, out}) : Tensor::host({out, area * in});
    const float* from = weight.data<float>();
    float* to = result.data<float>();
    for (int64_t o = 0; o < out; ++o)
        for (int64_t i = 0; i < in; ++i)
            for (int64_t t = 0; t < area; ++t)
                to[taps_first ? (t * in + i) * out + o : (o * area + t) * in + i] = from[(o * in + i) * area + t];
    return result;
}

}  // namespace

void conv2d(const ExecContext& context, const Conv2dArgs& args) {
    const auto& weights = static_cast<const CudaConv2d&>(*args.weights);
    if (wgmma_takes(context, args, weights))
        conv2d_wgmma(context, args, weights);
    else if (mma_takes(args, weights))
        conv2d_mma(context, args, weights);
    else if (few_takes(args, weights))
        conv2d_few(context, args, weights);
    else if (weights.groups == 1)
        by_patches(context, args, weights);
    else if (depthwise_takes(weights))
        conv2d_depthwise(context, args, weights);
    else
        by_groups(context, args, weights);
}

std::shared_ptr<const PackedConv2d> CudaDevice::pack_conv2d(const Conv2dSource& source, Precision precision) {
    const auto held = lock();
    auto packed = std::make_shared<CudaConv2d>();
    const Tensor weight = source.weight.decoded();
    packed->out_channels = weight.dim(0);
    packed->in_channels = weight.dim(1) * source.groups;
    packed->kernel_h = static_cast<int>(weight.dim(2));
    packed->kernel_w = static_cast<int>(weight.dim(3));
    packed->stride = source.stride;
    packed->padding = source.padding;
    packed->groups = source.groups;
    packed->out_type = storage_type(precision);
    const Tensor bias =
        source.bias ? upload_rows(*this, {source.bias.reshape({source.bias.dim(0), 1})}, DType::f32) : Tensor();
    if (source.groups > 1) {
        packed->taps = upload_rows(*this, {reordered(weight, true)}, DType::f32);
        packed->bias = bias;
        return packed;
    }
    CudaLinear& rows = packed->rows;
    rows.weight = upload_rows(*this, {reordered(weight, false)}, packed->out_type);
    rows.out_features = rows.weight.dim(0);
    rows.in_features = rows.weight.dim(1);
    rows.bias = bias;
    if (bias) rows.bias_bf16 = as_type(ExecContext{*this, 1, Precision::f32}, bias, DType::bf16);
    synchronize();  // as pack_linear
    return packed;
}

}  // namespace sam3::cuda
