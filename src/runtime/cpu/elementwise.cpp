#include "runtime/cpu/kernels.h"
#include "runtime/cpu/simd/simd.h"
#include "runtime/cpu/strided.h"

#include <cmath>
#include <limits>

namespace sam3::cpu {

namespace {

// Functions of one variable that simd::Table lacks. A NaN goes through every one of them, as in PyTorch.
float absolute(float x) { return std::fabs(x); }
float negate(float x) { return -x; }
float logarithm(float x) { return std::log(x); }
float square_root(float x) { return std::sqrt(x); }
float sine(float x) { return std::sin(x); }
float cosine(float x) { return std::cos(x); }

// DETR's: the quotient is kept away from 0 and infinity.
float inverse_sigmoid(float x) {
    constexpr float kEpsilon = 1e-3F;
    const float inside = x < 0 ? 0.0F : (x > 1 ? 1.0F : x);
    const float rest = 1.0F - inside;
    return std::log((inside < kEpsilon ? kEpsilon : inside) / (rest < kEpsilon ? kEpsilon : rest));
}

float signed_log2(float x) {
    const float magnitude = std::log2(std::fabs(x) + 1.0F);
    return x < 0 ? -magnitude : magnitude;
}

using Map = void (*)(float* out, const float* in, int64_t n);  // dense; out may be in

template <float (*function)(float)>
void map(float* out, const float* in, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = function(in[i]);
}

Map map_of(Unary function) {
    const simd::Table& vectorised = simd::table();
    switch (function) {
        case Unary::relu: return vectorised.relu;
        case Unary::gelu: return vectorised.gelu;
        case Unary::sigmoid: return vectorised.sigmoid;
        case Unary::tanh: return vectorised.tanh;
        case Unary::silu: return vectorised.silu;
        case Unary::exp: return vectorised.exp;
        case Unary::log: return map<logarithm>;
        case Unary::sqrt: return map<square_root>;
        case Unary::sin: return map<sine>;
        case Unary::cos: return map<cosine>;
        case Unary::abs: return map<absolute>;
        case Unary::neg: return map<negate>;
        case Unary::inverse_sigmoid: return map<inverse_sigmoid>;
        case Unary::signed_log2: return map<signed_log2>;
    }
    fail("unary: unknown function ", static_cast<int>(function));
}

// out = scale * x + shift; exact copies when there is nothing to scale or shift.
void affine(const float* x, int64_t stride, float scale, float shift, float* out, int64_t n) {
    if (scale == 1 && shift == 0) {
        if (stride == 1) {
            if (out != x) std::copy_n(x, n, out);
        } else {
            for (int64_t i = 0; i < n; ++i) out[i] = x[i * stride];
        }
    } else if (stride == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) out[i] = scale * x[i] + shift;
    } else {
        for (int64_t i = 0; i < n; ++i) out[i] = scale * x[i * stride] + shift;
    }
}

void clamp(float* x, float low, float high, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
        const float raised = x[i] < low ? low : x[i];
        x[i] = raised > high ? high : raised;
    }
}

struct Add {
    static float apply(float a, float b) { return a + b; }
};
struct Sub {
    static float apply(float a, float b) { return a - b; }
};
struct Mul {
    static float apply(float a, float b) { return a * b; }
};
struct Div {
    static float apply(float a, float b) { return a / b; }
};
// The second operand is returned when a comparison fails, so a NaN in it survives; one in the first is kept by hand.
struct Min {
    static float apply(float a, float b) { return ((a < b) | (a != a)) ? a : b; }
};
struct Max {
    static float apply(float a, float b) { return ((a > b) | (a != a)) ? a : b; }
};

struct Row {
    const float* data;
    int64_t stride;
};

// `out` may be the same memory as an operand: each element is read before it is written.
template <typename Op>
void combine(Row a, Row b, float* out, int64_t out_stride, int64_t n) {
    if (out_stride == 1 && a.stride == 1 && b.stride == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) out[i] = Op::apply(a.data[i], b.data[i]);
    } else if (out_stride == 1 && a.stride == 1 && b.stride == 0) {
        const float scalar = *b.data;
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) out[i] = Op::apply(a.data[i], scalar);
    } else if (out_stride == 1 && a.stride == 0 && b.stride == 1) {
        const float scalar = *a.data;
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) out[i] = Op::apply(scalar, b.data[i]);
    } else {
        for (int64_t i = 0; i < n; ++i) out[i * out_stride] = Op::apply(a.data[i * a.stride], b.data[i * b.stride]);
    }
}

template <typename Op>
void run_binary(const ExecContext& context, const BinaryArgs& args) {
    const StridedLoop<3> loop(args.out.shape(), {args.a.strides(), args.b.strides(), args.out.strides()});
    const float* a = args.a.data<float>();
    const float* b = args.b.data<float>();
    float* out = args.out.data<float>();
    loop.run(context, [&](const std::array<int64_t, 3>& at, int64_t n) {
        combine<Op>({a + at[0], loop.inner_stride(0)}, {b + at[1], loop.inner_stride(1)}, out + at[2],
                    loop.inner_stride(2), n);
    });
}

}  // namespace

void unary(const ExecContext& context, const UnaryArgs& args) {
    require_f32("unary", args.x);
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const bool limited = args.low > -kInfinity || args.high < kInfinity;
    const Map function = args.apply_function ? map_of(args.function) : nullptr;
    const StridedLoop<2> loop(args.x.shape(), {args.x.strides(), args.out.strides()});
    const float* x = args.x.data<float>();
    float* out = args.out.data<float>();
    const int64_t stride = loop.inner_stride(0);
    const bool is_plain = function != nullptr && stride == 1 && args.scale == 1 && args.shift == 0;
    loop.run(context, [&](const std::array<int64_t, 2>& at, int64_t n) {
        constexpr int64_t kBlock = 2048;  // stays in the first-level cache between the three steps
        for (int64_t start = 0; start < n; start += kBlock) {
            const int64_t size = std::min(kBlock, n - start);
            float* block = out + at[1] + start;
            const float* from = x + at[0] + start * stride;
            if (!is_plain) {
                affine(from, stride, args.scale, args.shift, block, size);
                from = block;
            }
            if (function != nullptr) function(block, from, size);
            if (limited) clamp(block, args.low, args.high, size);
        }
    });
}

void binary(const ExecContext& context, const BinaryArgs& args) {
    require_f32("binary", args.a);
    require_f32("binary", args.b);
    switch (args.function) {
        case Binary::add: return run_binary<Add>(context, args);
        case Binary::sub: return run_binary<Sub>(context, args);
        case Binary::mul: return run_binary<Mul>(context, args);
        case Binary::div: return run_binary<Div>(context, args);
        case Binary::min: return run_binary<Min>(context, args);
        case Binary::max: return run_binary<Max>(context, args);
    }
}

}  // namespace sam3::cpu
