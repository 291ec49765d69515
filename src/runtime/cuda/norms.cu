#include "runtime/cuda/early.cuh"
#include "runtime/cuda/few_tokens.h"
#include "runtime/cuda/strided.cuh"

#include <type_traits>

// Layer normalisation and softmax: a row belongs to some lanes of one warp, or to a block.
namespace sam3::cuda {

namespace {

constexpr int kWarp = 32;

// The sum over groups of kLanes neighbouring lanes. All lanes of the warp take part.
template <int kLanes>
__device__ float lane_sum(float x) {
    for (int step = kLanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffU, x, step);
    return x;
}

// The sum of the norm and rows that repeat.
struct NormSum {
    const void* added = nullptr;
    void* out = nullptr;
    int64_t added_stride = 0, out_stride = 0;
    int added_rows = 1;
    bool half_added = false, half_out = false;  // bf16, otherwise f32

    __device__ float4 load(int64_t row, int channel) const {
        if (added == nullptr) return {0.0F, 0.0F, 0.0F, 0.0F};
        const int64_t repeated =
            row < added_rows ? row : static_cast<uint32_t>(row) % static_cast<uint32_t>(added_rows);
        const int64_t at = repeated * added_stride + channel;
        return half_added ? load4(static_cast<const bf16*>(added) + at) : load4(static_cast<const float*>(added) + at);
    }
    __device__ void store(int64_t row, int channel, float4 y) const {
        const int64_t at = row * out_stride + channel;
        if (half_out)
            store4(static_cast<bf16*>(out) + at, y);
        else
            store4(static_cast<float*>(out) + at, y);
    }
};

constexpr int kMostInRegisters = 1536;  // channels

enum class After { nothing, activation, sum };  // the norm

template <typename X, typename Out>
struct LayerNorm {
    const X* x;
    int64_t x_stride;
    const float *gamma, *beta;
    float eps;
    Activation activation;
    Out* out;
    int64_t out_stride;
    int64_t rows;
    int channels;
    NormSum sum;
};

__device__ float4 normalised(float4 v, float mean, float scale, float4 gamma, float4 beta) {
    return {(v.x - mean) * scale * gamma.x + beta.x, (v.y - mean) * scale * gamma.y + beta.y,
            (v.z - mean) * scale * gamma.z + beta.z, (v.w - mean) * scale * gamma.w + beta.w};
}

// kLanes lanes hold a row in registers, kPieces times four channels each: memory is read once.
template <int kLanes, int kPieces, After kAfter, typename X, typename Out>
__global__ void layer_norm_in_registers(LayerNorm<X, Out> args) {
    let_next_start();
    wait_for_earlier();
    const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
    const int lane = threadIdx.x % kLanes;
    const int pieces = row < args.rows ? args.channels / 4 : 0;
    const X* const x = args.x + row * args.x_stride;
    float4 v[kPieces];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
        const int piece = i * kLanes + lane;
        v[i] = piece < pieces ? load4(x + 4 * piece) : float4{0.0F, 0.0F, 0.0F, 0.0F};
        sum += (v[i].x + v[i].y) + (v[i].z + v[i].w);
    }
    const float count = static_cast<float>(args.channels);
    const float mean = lane_sum<kLanes>(sum) / count;
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
        if (i * kLanes + lane >= pieces) continue;
        const float4 d = {v[i].x - mean, v[i].y - mean, v[i].z - mean, v[i].w - mean};
        squares += (d.x * d.x + d.y * d.y) + (d.z * d.z + d.w * d.w);
    }
    const float scale = 1.0F / sqrtf(lane_sum<kLanes>(squares) / count + args.eps);
    Out* const out = args.out + row * args.out_stride;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
        const int piece = i * kLanes + lane;
        if (piece >= pieces) continue;
        float4 y = normalised(v[i], mean, scale, load4(args.gamma + 4 * piece), load4(args.beta + 4 * piece));
        if constexpr (kAfter == After::activation) y = map4(y, [&](float a) { return activate(a, args.activation); });
        if constexpr (kAfter == After::sum) args.sum.store(row, 4 * piece, plus(y, args.sum.load(row, 4 * piece)));
        store4(out + 4 * piece, y);
    }
}

// Eight neighbouring results.
template <typename Out>
__device__ void store8(Out* p, const float (&y)[8]) {
    if constexpr (std::is_same_v<Out, bf16>) {
        store_piece(p, y);
    } else {
        store4(p, {y[0], y[1], y[2], y[3]});
        store4(p + 4, {y[4], y[5], y[6], y[7]});
    }
}

// The same for halves, eight channels a piece: 16 bytes in one access. A warp has kRows rows, for which gamma and beta
// are read once: they have four times the bytes of a row.
template <int kRows, int kPieces, After kAfter, typename X, typename Out>
__global__ void layer_norm_of_halves(LayerNorm<X, Out> args) {
    constexpr int kWidth = 8;
    let_next_start();
    wait_for_earlier();
    const int64_t first = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kWarp * kRows;
    const int lane = threadIdx.x % kWarp;
    const int pieces = args.channels / kWidth;
    const float count = static_cast<float>(args.channels);
    uint4 bits[kRows][kPieces];
    float mean[kRows];
    float scale[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
            const int piece = i * kWarp + lane;
            const bool there = first + r < args.rows && piece < pieces;
            bits[r][i] = there ? load_bits<kWidth>(args.x + (first + r) * args.x_stride + kWidth * piece) : uint4{};
        }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
            float v[kWidth];
            unpack<X>(bits[r][i], v);
#pragma unroll
            for (int c = 0; c < kWidth; c += 2) sum += v[c] + v[c + 1];
        }
        mean[r] = lane_sum<kWarp>(sum) / count;
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        float squares = 0;
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
            if (i * kWarp + lane >= pieces) continue;
            float v[kWidth];
            unpack<X>(bits[r][i], v);
#pragma unroll
            for (int c = 0; c < kWidth; c += 2) {
                const float2 d = {v[c] - mean[r], v[c + 1] - mean[r]};
                squares += d.x * d.x + d.y * d.y;
            }
        }
        scale[r] = 1.0F / sqrtf(lane_sum<kWarp>(squares) / count + args.eps);
    }
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
        const int channel = (i * kWarp + lane) * kWidth;
        if (channel >= args.channels) continue;
        const float4 gamma[2] = {load4(args.gamma + channel), load4(args.gamma + channel + 4)};
        const float4 beta[2] = {load4(args.beta + channel), load4(args.beta + channel + 4)};
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            const int64_t row = first + r;
            if (row >= args.rows) continue;
            float v[kWidth];
            unpack<X>(bits[r][i], v);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float* const four = v + 4 * half;
                float4 y = normalised({four[0], four[1], four[2], four[3]}, mean[r], scale[r], gamma[half], beta[half]);
                if constexpr (kAfter == After::activation)
                    y = map4(y, [&](float x) { return activate(x, args.activation); });
                if constexpr (kAfter == After::sum) {
                    const int at = channel + 4 * half;
                    args.sum.store(row, at, plus(y, args.sum.load(row, at)));
                }
                four[0] = y.x, four[1] = y.y, four[2] = y.z, four[3] = y.w;
            }
            store8(args.out + row * args.out_stride + channel, v);
        }
    }
}

// The sum, or the largest, of a value over a block; every thread gets it.
template <int kSize, typename Join>
__device__ float over_block(float x, const Join& join) {
    for (int step = kWarp / 2; step > 0; step /= 2) x = join(x, __shfl_xor_sync(0xffffffffU, x, step));
    if constexpr (kSize > kWarp) {
        __shared__ float parts[kSize / kWarp];
        if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = x;
        __syncthreads();
        x = parts[0];
        for (int i = 1; i < kSize / kWarp; ++i) x = join(x, parts[i]);
        __syncthreads();  // before the parts are used again
    }
    return x;
}

// One block for each row, for rows so few that waiting for memory is all there is: everything is asked for at once.
template <int kWarps, After kAfter, typename X, typename Out>
__global__ void __launch_bounds__(kWarp* kWarps) layer_norm_of_few_rows(LayerNorm<X, Out> args) {
    constexpr int kSize = kWarp * kWarps;
    constexpr int kPieces = 2;  // of four channels, of a thread
    const auto add = [](float a, float b) { return a + b; };
    let_next_start();
    wait_for_earlier();
    const X* const x = args.x + blockIdx.x * args.x_stride;
    const int thread = threadIdx.x;
    const int pieces = args.channels / 4;
    float4 v[kPieces];
    float4 gamma[kPieces];
    float4 beta[kPieces];
    float4 added[kPieces];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
        const int piece = i * kSize + thread;
        v[i] = gamma[i] = beta[i] = {0.0F, 0.0F, 0.0F, 0.0F};
        if (piece >= pieces) continue;
        v[i] = load4(x + 4 * piece);
        gamma[i] = load4(args.gamma + 4 * piece);
        beta[i] = load4(args.beta + 4 * piece);
        if constexpr (kAfter == After::sum) added[i] = args.sum.load(blockIdx.x, 4 * piece);
    }
#pragma unroll
    for (int i = 0; i < kPieces; ++i) sum += (v[i].x + v[i].y) + (v[i].z + v[i].w);
    const float count = static_cast<float>(args.channels);
    const float mean = over_block<kSize>(sum, add) / count;
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
        if (i * kSize + thread >= pieces) continue;
        const float4 d = {v[i].x - mean, v[i].y - mean, v[i].z - mean, v[i].w - mean};
        squares += (d.x * d.x + d.y * d.y) + (d.z * d.z + d.w * d.w);
    }
    const float scale = 1.0F / sqrtf(over_block<kSize>(squares, add) / count + args.eps);
    Out* const out = args.out + blockIdx.x * args.out_stride;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
        const int piece = i * kSize + thread;
        if (piece >= pieces) continue;
        float4 y = normalised(v[i], mean, scale, gamma[i], beta[i]);
        if constexpr (kAfter == After::activation) y = map4(y, [&](float a) { return activate(a, args.activation); });
        if constexpr (kAfter == After::sum) args.sum.store(blockIdx.x, 4 * piece, plus(y, added[i]));
        store4(out + 4 * piece, y);
    }
}

// Any number of channels, any alignment; a warp reads its row three times, from the cache.
template <typename X, typename Out>
__global__ void layer_norm_of_any_size(LayerNorm<X, Out> args) {
    const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kWarp;
    if (row >= args.rows) return;  // a whole warp
    const int lane = threadIdx.x % kWarp;
    const X* const x = args.x + row * args.x_stride;
    const float count = static_cast<float>(args.channels);
    float sum = 0;
    for (int c = lane; c < args.channels; c += kWarp) sum += to_float(x[c]);
    const float mean = warp_sum(sum) / count;
    float squares = 0;
    for (int c = lane; c < args.channels; c += kWarp) {
        const float difference = to_float(x[c]) - mean;
        squares += difference * difference;
    }
    const float scale = 1.0F / sqrtf(warp_sum(squares) / count + args.eps);
    Out* const out = args.out + row * args.out_stride;
    for (int c = lane; c < args.channels; c += kWarp) {
        const float y = (to_float(x[c]) - mean) * scale * args.gamma[c] + args.beta[c];
        out[c] = from_float<Out>(activate(y, args.activation));
    }
}

// The kernel for what comes after the norm: `pick` makes it for a kind.
template <typename Kernel, typename X, typename Out, typename Pick>
Kernel* kernel_for(const LayerNorm<X, Out>& args, const Pick& pick) {
    using Nothing = std::integral_constant<After, After::nothing>;
    using Activated = std::integral_constant<After, After::activation>;
    using Summed = std::integral_constant<After, After::sum>;
    return args.sum.out != nullptr               ? pick(Summed{})
           : args.activation != Activation::none ? pick(Activated{})
                                                 : pick(Nothing{});
}

template <int kLanes, int kPieces, typename X, typename Out>
void start_in_registers(const ExecContext& context, const LayerNorm<X, Out>& args, cudaStream_t stream) {
    using Kernel = void(LayerNorm<X, Out>);
    Kernel* const kernel = kernel_for<Kernel>(args, [](auto after) -> Kernel* {
        return layer_norm_in_registers<kLanes, kPieces, decltype(after)::value, X, Out>;
    });
    KernelLaunch(dim3(blocks_of(args.rows * kLanes)), kThreads, 0, stream)
        .early(context)
        .start("layer_norm", kernel, args);
}

template <int kRows, int kPieces, typename X, typename Out>
void start_halves(const ExecContext& context, const LayerNorm<X, Out>& args, cudaStream_t stream) {
    using Kernel = void(LayerNorm<X, Out>);
    Kernel* const kernel = kernel_for<Kernel>(args, [](auto after) -> Kernel* {
        return layer_norm_of_halves<kRows, kPieces, decltype(after)::value, X, Out>;
    });
    KernelLaunch(dim3(blocks_of(blocks_for(args.rows, kRows) * kWarp)), kThreads, 0, stream)
        .early(context)
        .start("layer_norm", kernel, args);
}

template <int kWarps, typename X, typename Out>
void start_few_rows(const ExecContext& context, const LayerNorm<X, Out>& args, cudaStream_t stream) {
    using Kernel = void(LayerNorm<X, Out>);
    Kernel* const kernel = kernel_for<Kernel>(
        args, [](auto after) -> Kernel* { return layer_norm_of_few_rows<kWarps, decltype(after)::value, X, Out>; });
    KernelLaunch(dim3(static_cast<unsigned>(args.rows)), kWarp * kWarps, 0, stream)
        .early(context)
        .start("layer_norm", kernel, args);
}

// `width`: channels of the pieces that all rows can be cut into, 8, 4 or 1.
template <typename X, typename Out>
void start_layer_norm(const ExecContext& context, const LayerNorm<X, Out>& args, int width, cudaStream_t stream) {
    constexpr int64_t kFewRows = 512;
    const int channels = args.channels;
    const bool few = args.rows <= kFewRows;
    if constexpr (sizeof(X) == 2)
        if (!few && width == 8 && channels > 256 && channels <= 1024) return start_halves<2, 4>(context, args, stream);
    if (width == 1 || channels > kMostInRegisters)
        layer_norm_of_any_size<<<blocks_of(args.rows * kWarp), kThreads, 0, stream>>>(args);
    else if (few && channels > 1024)
        start_few_rows<6>(context, args, stream);
    else if (few && channels > 256)
        start_few_rows<4>(context, args, stream);
    else if (few && channels > 64)
        start_few_rows<1>(context, args, stream);
    else if (channels == 4)
        start_in_registers<1, 1>(context, args, stream);
    else if (channels <= 16)
        start_in_registers<4, 1>(context, args, stream);
    else if (channels <= 64)
        start_in_registers<16, 1>(context, args, stream);
    else if (channels <= 256)
        start_in_registers<32, 2>(context, args, stream);
    else if (channels <= 1024)
        start_in_registers<32, 8>(context, args, stream);
    else
        start_in_registers<32, 12>(context, args, stream);
}

bool is_f32_or_bf16(const Tensor& x) { return x.dtype() == DType::f32 || x.dtype() == DType::bf16; }

bool has_rows_of(const Tensor& x, int width) {
    return x.dim(1) % width == 0 && x.stride(0) % width == 0 &&
           is_aligned(x.raw(), static_cast<size_t>(width) * size_of(x.dtype()));
}
bool has_rows_of_fours(const Tensor& x) { return has_rows_of(x, 4); }

// One block for each row.
template <int kSize, typename X, typename Out>
__global__ void softmax_kernel(const X* x, int64_t x_stride, Out* out, int64_t out_stride, int64_t columns) {
    x += blockIdx.x * x_stride;
    out += blockIdx.x * out_stride;
    float largest = to_float(x[0]);
    for (int64_t c = threadIdx.x; c < columns; c += kSize) largest = fmaxf(largest, to_float(x[c]));
    const float maximum = over_block<kSize>(largest, [](float a, float b) { return fmaxf(a, b); });
    float sum = 0;
    for (int64_t c = threadIdx.x; c < columns; c += kSize) sum += expf(to_float(x[c]) - maximum);
    const float factor = 1.0F / over_block<kSize>(sum, [](float a, float b) { return a + b; });
    for (int64_t c = threadIdx.x; c < columns; c += kSize)
        out[c] = from_float<Out>(expf(to_float(x[c]) - maximum) * factor);
}

}  // namespace

void layer_norm(const ExecContext& context, const LayerNormArgs& args) {
    if (device_of(context).few_tokens().take(context, args)) return;
    const bool fours = has_rows_of_fours(args.x) && has_rows_of_fours(args.out) && is_aligned(args.gamma.raw(), 16) &&
                       is_aligned(args.beta.raw(), 16);
    const int width = !fours ? 1 : has_rows_of(args.x, 8) && has_rows_of(args.out, 8) ? 8 : 4;
    count_of("layer_norm", args.x.dim(0));
    NormSum sum;
    const bool sums = args.sum && fours && has_rows_of_fours(args.sum) && args.x.dim(1) <= kMostInRegisters &&
                      is_f32_or_bf16(args.sum) &&
                      (!args.added || (has_rows_of_fours(args.added) && is_f32_or_bf16(args.added)));
    if (sums) {
        sum.out = args.sum.raw();
        sum.out_stride = args.sum.stride(0);
        sum.half_out = args.sum.dtype() == DType::bf16;
    }
    if (sums && args.added) {
        sum.added = args.added.raw();
        sum.added_stride = args.added.stride(0);
        sum.added_rows = static_cast<int>(args.added.dim(0));
        sum.half_added = args.added.dtype() == DType::bf16;
    }
    for_sum_type(args.x.dtype(), [&](auto from) {
        for_sum_type(args.out.dtype(), [&](auto to) {
            using X = typename decltype(from)::type;
            using Out = typename decltype(to)::type;
            const LayerNorm<X, Out> all{args.x.data<const X>(),
                                        args.x.stride(0),
                                        args.gamma.data<const float>(),
                                        args.beta.data<const float>(),
                                        args.eps,
                                        args.activation,
                                        args.out.data<Out>(),
                                        args.out.stride(0),
                                        args.x.dim(0),
                                        static_cast<int>(args.x.dim(1)),
                                        sum};
            launch(context, "layer_norm", [&](cudaStream_t stream) { start_layer_norm(context, all, width, stream); });
        });
    });
    if (args.sum && !sums && args.added) binary(context, sum_of(args));
    if (args.sum && !sums && !args.added) copy(context, CopyArgs{args.out, args.sum});
}

void softmax(const ExecContext& context, const SoftmaxArgs& args) {
    const uint32_t rows = count_of("softmax", args.x.dim(0));
    const int64_t columns = args.x.dim(1);
    for_float_type(args.x.dtype(), [&](auto from) {
        for_float_type(args.out.dtype(), [&](auto to) {
            using X = typename decltype(from)::type;
            using Out = typename decltype(to)::type;
            const auto start = [&](auto kernel, int threads, cudaStream_t stream) {
                kernel<<<rows, threads, 0, stream>>>(args.x.data<const X>(), args.x.stride(0), args.out.data<Out>(),
                                                     args.out.stride(0), columns);
            };
            launch(context, "softmax", [&](cudaStream_t stream) {
                if (columns <= 512)
                    start(softmax_kernel<kWarp, X, Out>, kWarp, stream);
                else
                    start(softmax_kernel<kThreads, X, Out>, kThreads, stream);
            });
        });
    });
}

}  // namespace sam3::cuda
