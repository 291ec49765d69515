#include "runtime/cuda/early.cuh"
#include "runtime/cuda/strided.cuh"

// Functions of one and of two tensors, element by element.
namespace sam3::cuda {

namespace {

// DETR's: the quotient is kept away from 0 and infinity.
__device__ float inverse_sigmoid(float x) {
    constexpr float kEpsilon = 1e-3F;
    const float inside = x < 0 ? 0.0F : (x > 1 ? 1.0F : x);
    const float rest = 1.0F - inside;
    return logf((inside < kEpsilon ? kEpsilon : inside) / (rest < kEpsilon ? kEpsilon : rest));
}

__device__ float signed_log2(float x) {
    const float magnitude = log2f(fabsf(x) + 1.0F);
    return x < 0 ? -magnitude : magnitude;
}

// A NaN goes through every one of them, as in PyTorch.
__device__ float apply(Unary function, float x) {
    switch (function) {
        case Unary::relu: return x < 0 ? 0.0F : x;
        case Unary::gelu: return gelu(x);
        case Unary::sigmoid: return sigmoid(x);
        case Unary::tanh: return tanhf(x);
        case Unary::silu: return x * sigmoid(x);
        case Unary::exp: return expf(x);
        case Unary::log: return logf(x);
        case Unary::sqrt: return sqrtf(x);
        case Unary::sin: return sinf(x);
        case Unary::cos: return cosf(x);
        case Unary::abs: return fabsf(x);
        case Unary::neg: return -x;
        case Unary::inverse_sigmoid: return inverse_sigmoid(x);
        case Unary::signed_log2: return signed_log2(x);
    }
    return x;
}

__device__ float apply(Binary function, float a, float b) {
    switch (function) {
        case Binary::add: return a + b;
        case Binary::sub: return a - b;
        case Binary::mul: return a * b;
        case Binary::div: return a / b;
        // The second operand is returned when a comparison fails, so a NaN in it survives; one in the first is kept.
        case Binary::min: return a < b || a != a ? a : b;
        case Binary::max: return a > b || a != a ? a : b;
    }
    return a;
}

struct UnaryFunction {
    Unary function;
    bool is_applied, is_affine;
    float scale, shift, low, high;

    explicit UnaryFunction(const UnaryArgs& args)
        : function(args.function),
          is_applied(args.apply_function),
          is_affine(args.scale != 1 || args.shift != 0),
          scale(args.scale),
          shift(args.shift),
          low(args.low),
          high(args.high) {}

    __device__ float operator()(float x) const {
        if (is_affine) x = scale * x + shift;
        if (is_applied) x = apply(function, x);
        x = x < low ? low : x;
        return x > high ? high : x;
    }
};

template <int kWidth, typename T>
__device__ float4 load_operand(const T* p, bool repeats) {
    if (!repeats) return load_some<kWidth>(p);
    const float value = to_float(*p);
    return {value, value, value, value};
}

template <int kWidth, typename T>
__global__ void unary_kernel(Walk<2> walk, UnaryFunction function, const T* x, T* out) {
    let_next_start();
    wait_for_earlier();
    const uint32_t i = thread_number();
    if (i >= walk.count) return;
    int64_t at[2];
    walk.offsets(i, at);
    store_some<kWidth>(out + at[1], map4(load_operand<kWidth>(x + at[0], walk.repeats(0)), function));
}

template <int kWidth, typename A, typename B, typename Out>
__global__ void binary_kernel(Walk<3> walk, Binary function, const A* a, const B* b, Out* out) {
    let_next_start();
    wait_for_earlier();
    const uint32_t i = thread_number();
    if (i >= walk.count) return;
    int64_t at[3];
    walk.offsets(i, at);
    const float4 x = load_operand<kWidth>(a + at[0], walk.repeats(0));
    const float4 y = load_operand<kWidth>(b + at[1], walk.repeats(1));
    store_some<kWidth>(out + at[2], {apply(function, x.x, y.x), apply(function, x.y, y.y), apply(function, x.z, y.z),
                                     apply(function, x.w, y.w)});
}

}  // namespace

void unary(const ExecContext& context, const UnaryArgs& args) {
    if (args.x.dtype() != args.out.dtype())
        fail("unary: the GPU's result has the type of the input, ", name_of(args.x.dtype()), ", found ",
             name_of(args.out.dtype()));
    const MergedStrides<2> merged(args.x.shape(), {args.x.strides(), args.out.strides()});
    const bool fours = has_fours(merged, 0, args.x) && has_steps(merged, 1, args.out, 4);
    for_float_type(args.x.dtype(), [&](auto type) {
        using T = typename decltype(type)::type;
        for_width(fours, [&](auto width) {
            constexpr int kWidth = decltype(width)::value;
            for_each_part(merged, kWidth, [&](const Walk<2>& walk, const std::array<int64_t, 2>& from) {
                launch(context, "unary", [&](cudaStream_t stream) {
                    KernelLaunch(dim3(blocks_of(walk.count)), kThreads, 0, stream)
                        .early(context)
                        .start("unary", unary_kernel<kWidth, T>, walk, UnaryFunction(args),
                               args.x.data<const T>() + from[0], args.out.data<T>() + from[1]);
                });
            });
        });
    });
}

void binary(const ExecContext& context, const BinaryArgs& args) {
    const MergedStrides<3> merged(args.out.shape(), {args.a.strides(), args.b.strides(), args.out.strides()});
    const bool fours =
        has_fours(merged, 0, args.a) && has_fours(merged, 1, args.b) && has_steps(merged, 2, args.out, 4);
    const auto start = [&](auto width, auto a, auto b, auto out) {
        constexpr int kWidth = decltype(width)::value;
        using A = typename decltype(a)::type;
        using B = typename decltype(b)::type;
        using Out = typename decltype(out)::type;
        for_each_part(merged, kWidth, [&](const Walk<3>& walk, const std::array<int64_t, 3>& from) {
            launch(context, "binary", [&](cudaStream_t stream) {
                KernelLaunch(dim3(blocks_of(walk.count)), kThreads, 0, stream)
                    .early(context)
                    .start("binary", binary_kernel<kWidth, A, B, Out>, walk, args.function,
                           args.a.data<const A>() + from[0], args.b.data<const B>() + from[1],
                           args.out.data<Out>() + from[2]);
            });
        });
    };
    for_float_type(args.a.dtype(), [&](auto a) {
        for_float_type(args.b.dtype(), [&](auto b) {
            for_float_type(args.out.dtype(),
                           [&](auto out) { for_width(fours, [&](auto width) { start(width, a, b, out); }); });
        });
    });
}

}  // namespace sam3::cuda
