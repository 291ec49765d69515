#include "runtime/cuda/strided.cuh"
#include "runtime/cuda/weights.h"

namespace sam3::cuda {

namespace {

struct Shuffle {
    uint32_t count;
    Divisor pieces, columns, rows;  // of the result
    int channels;
};

// products [N, H, W, 2, 2, C] -> out [N, 2H, 2W, C]
template <int kEach, typename T>
__global__ void shuffle_kernel(Shuffle s, const T* products, const T* residual, int64_t residual_batch, T* out,
                               Activation activation) {
    uint32_t index = thread_number();
    if (index >= s.count) return;
    const int64_t to = static_cast<int64_t>(index) * kEach;
    const uint32_t c = s.pieces.take(index) * kEach;
    const uint32_t x = s.columns.take(index);
    const uint32_t y = s.rows.take(index);
    const uint32_t n = index;
    const uint32_t pixel = (n * (s.rows.divisor / 2) + y / 2) * (s.columns.divisor / 2) + x / 2;
    const int64_t from = static_cast<int64_t>(pixel * 4 + (y % 2) * 2 + x % 2) * s.channels + c;
    const int64_t within = static_cast<int64_t>(y * s.columns.divisor + x) * s.channels + c;
    const T* const more = residual == nullptr ? nullptr : residual + n * residual_batch + within;
    if constexpr (kEach == 4) {
        float4 v = load4(products + from);
        v = {activate(v.x, activation), activate(v.y, activation), activate(v.z, activation),
             activate(v.w, activation)};
        if (more != nullptr) {
            const float4 r = load4(more);
            v = {v.x + r.x, v.y + r.y, v.z + r.z, v.w + r.w};
        }
        store4(out + to, v);
    } else {
        const float v = activate(to_float(products[from]), activation);
        out[to] = from_float<T>(more == nullptr ? v : v + to_float(*more));
    }
}

}  // namespace

void conv_transpose_2x2(const ExecContext& context, const ConvTranspose2x2Args& args) {
    const auto& weights = static_cast<const CudaLinear&>(*args.weights);
    if (!args.residual && multiply_into_pixels(context, args.x, weights, args.activation, args.out)) return;
    const int64_t rows = args.x.numel() / args.x.dim(3);
    const Tensor products = new_tensor(context, {rows, weights.out_features}, args.out.dtype());
    multiply_rows(context, args.x.reshape({rows, args.x.dim(3)}), weights, Activation::none, {}, products);
    for_float_type(args.out.dtype(), [&](auto type) {
        using T = typename decltype(type)::type;
        const int64_t channels = args.out.dim(3);
        for_width(channels % 4 == 0, [&](auto width) {
            constexpr int kEach = decltype(width)::value;
            const Shuffle shuffle{count_of("conv_transpose_2x2", args.out.numel() / kEach), Divisor(channels / kEach),
                                  Divisor(args.out.dim(2)), Divisor(args.out.dim(1)), static_cast<int>(channels)};
            launch(context, "conv_transpose_2x2", [&](cudaStream_t stream) {
                shuffle_kernel<kEach, T><<<blocks_of(shuffle.count), kThreads, 0, stream>>>(
                    shuffle, products.data<T>(), args.residual ? args.residual.data<T>() : nullptr,
                    args.residual ? args.residual.stride(0) : 0, args.out.data<T>(), args.activation);
            });
        });
    });
}

}  // namespace sam3::cuda
