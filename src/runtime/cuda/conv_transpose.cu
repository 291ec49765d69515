#include "runtime/cuda/elements.cuh"
#include "runtime/cuda/weights.h"

namespace sam3::cuda {

namespace {

// products [N, H, W, 2, 2, C] -> out [N, 2H, 2W, C]
template <typename T, int kEach>
__global__ void shuffle_kernel(const T* products, const T* residual, int64_t residual_batch, T* out, int64_t items,
                               int height, int width, int channels, Activation activation) {
    const int64_t item = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (item >= items) return;
    const int across = channels / kEach;
    const int c = static_cast<int>(item % across) * kEach;
    int64_t rest = item / across;
    const int x = static_cast<int>(rest % (2 * width));
    rest /= 2 * width;
    const int y = static_cast<int>(rest % (2 * height));
    const int64_t n = rest / (2 * height);
    const int64_t from = (((n * height + y / 2) * width + x / 2) * 4 + (y % 2) * 2 + x % 2) * channels + c;
    const int64_t within = (static_cast<int64_t>(y) * 2 * width + x) * channels + c;
    const int64_t to = n * 4 * height * width * channels + within;
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
    if (wgmma_takes_transposed(context, weights, args.x)) return conv_transpose_wgmma(context, args, weights);
    const int64_t rows = args.x.numel() / args.x.dim(3);
    const Tensor products = new_tensor(context, {rows, weights.out_features}, args.out.dtype());
    multiply_rows(context, args.x.reshape({rows, args.x.dim(3)}), weights, Activation::none, {}, products);
    launch(context, "conv_transpose_2x2", [&](cudaStream_t stream) {
        for_float_type(args.out.dtype(), [&](auto type) {
            using T = typename decltype(type)::type;
            const auto channels = static_cast<int>(args.out.dim(3));
            const T* more = args.residual ? args.residual.data<T>() : nullptr;
            const int64_t more_batch = args.residual ? args.residual.stride(0) : 0;
            const auto start = [&](auto each) {
                constexpr int kEach = decltype(each)::value;
                constexpr int kThreads = 256;
                const int64_t items = args.out.numel() / kEach;
                shuffle_kernel<T, kEach><<<static_cast<unsigned>(blocks_for(items, kThreads)), kThreads, 0, stream>>>(
                    products.data<T>(), more, more_batch, args.out.data<T>(), items, static_cast<int>(args.x.dim(1)),
                    static_cast<int>(args.x.dim(2)), channels, args.activation);
            };
            if (channels % 4 == 0)
                start(std::integral_constant<int, 4>{});
            else
                start(std::integral_constant<int, 1>{});
        });
    });
}

}  // namespace sam3::cuda
