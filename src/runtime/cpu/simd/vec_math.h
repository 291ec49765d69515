#pragma once

#include "runtime/cpu/simd/vec.h"

// Elementary functions on Vec. The polynomials are minimax fits made for this file; errors are stated in ulp of the
// result and tested in tests/runtime/simd_test.cpp. Every function keeps NaN.
namespace sam3::simd::SAM3_SIMD_VARIANT {

// Adding it to |x| < 2^22 rounds x to an integer, which then stands in the low mantissa bits.
constexpr float kRound = 12582912.0F;  // 1.5 * 2^23

// 2^(biased - 127) from the low 8 bits of `biased`; 0 for biased = 0.
SAM3_INLINE Vec power_of_two(IntVec biased) { return reinterpret_cast<Vec>(reinterpret_cast<UintVec>(biased) << 23); }

// 2^v for v <= 0, relative error below 2e-7; exactly 0 below about -126.5, so that no result is denormal.
SAM3_INLINE Vec exp2_nonpositive(Vec v) {
    v = max(broadcast(-127.0F), v);
    constexpr float kBiased = kRound + 127.0F;  // the low bits hold the biased exponent
    const Vec shifted = v + kBiased;
    const Vec r = v - (shifted - kBiased);  // [-0.5, 0.5]
    Vec p = broadcast(0.0013276466800478102F);
    p = p * r + 0.009675541293031472F;
    p = p * r + 0.055507132895591345F;
    p = p * r + 0.24022119724871308F;
    p = p * r + 0.6931469670549257F;
    p = p * r + 1.0F;
    return p * power_of_two(bits(shifted));
}

struct ExpParts {  // e^v = mantissa * 2^exponent, mantissa in [0.7, 1.42]
    Vec mantissa;
    IntVec exponent;
};

SAM3_INLINE ExpParts exp_parts(Vec v) {
    const Vec shifted = v * 1.44269504088896341F + kRound;
    const Vec n = shifted - kRound;
    Vec r = v - n * 0.693145751953125F;  // ln 2 in two parts; the product with the first one is exact
    r = r - n * 1.42860682030941723e-6F;
    Vec p = broadcast(0.0013814568816441328F);
    p = p * r + 0.008368730395224093F;
    p = p * r + 0.04166838938313452F;
    p = p * r + 0.16666520519805972F;
    p = p * r + 0.499999934401785F;
    p = p * (r * r) + r + 1.0F;
    return {p, bits(shifted) - bits(broadcast(kRound))};
}

// 2 ulp, over the whole range with denormal results and infinity.
SAM3_INLINE Vec exp(Vec v) {
    v = min(broadcast(90.0F), max(broadcast(-105.0F), v));
    const ExpParts e = exp_parts(v);
    const IntVec half = e.exponent >> 1;  // 2^exponent itself may not be a normal number
    return e.mantissa * power_of_two(half + 127) * power_of_two(e.exponent - half + 127);
}

// The same for v <= 88; exactly 0 where the result would be denormal.
SAM3_INLINE Vec exp_normal(Vec v) {
    v = max(broadcast(-88.0F), v);  // its exponent is -127: a zero scale
    const ExpParts e = exp_parts(v);
    return e.mantissa * power_of_two(e.exponent + 127);
}

// 1 / (1 + e^-v), computed from e^-|v| <= 1.
SAM3_INLINE Vec sigmoid(Vec v) {
    const Vec e = exp_normal(-abs(v));
    return (v < 0.0F ? e : broadcast(1.0F)) / (e + 1.0F);
}

SAM3_INLINE Vec silu(Vec v) { return v * sigmoid(v); }

SAM3_INLINE Vec tanh(Vec v) {
    const Vec s = v * v;
    Vec p = broadcast(-0.005591019749233708F);
    p = p * s + 0.020538823849209555F;
    p = p * s - 0.05370965894864395F;
    p = p * s + 0.1333109227510869F;
    p = p * s - 0.33333269518103587F;
    const Vec small = v + v * s * p;
    const Vec e = exp_normal(-2.0F * abs(v));
    const Vec large = copy_sign((1.0F - e) / (1.0F + e), v);
    return abs(v) < 0.625F ? small : large;
}

// The normal distribution's lower tail Phi(-a), a >= 0, with small relative error: e^(-a^2/2) * erfcx-like polynomial
// in 1 / (1 + a/4), fitted on [0, 14]. 0 for a > 13.2.
SAM3_INLINE Vec normal_tail(Vec a) {
    a = min(broadcast(14.0F), a);
    const Vec u = 1.0F / (a * 0.25F + 1.0F);
    Vec p = broadcast(0.016579289994213164F);
    p = p * u - 0.0627901827915033F;
    p = p * u + 0.05164761512860108F;
    p = p * u + 0.028442321645328485F;
    p = p * u + 0.012706250723230412F;
    p = p * u + 0.08666002150744184F;
    p = p * u + 0.07199828201674272F;
    p = p * u + 0.09551597681425496F;
    p = p * u + 0.09949252369319632F;
    p = p * u + 0.09974790534001761F;
    return p * u * exp_normal(a * a * -0.5F);
}

SAM3_INLINE Vec gelu(Vec v) {
    const Vec tail = normal_tail(abs(v));
    return v * (v < 0.0F ? tail : 1.0F - tail);
}

SAM3_INLINE Vec gelu_tanh(Vec v) {
    const Vec inner = (v * v * 0.0356774081363001F + 0.797884560802865F) * v;  // sqrt(2/pi) * (v + 0.044715 v^3)
    return v * sigmoid(inner + inner);
}

SAM3_INLINE Vec relu(Vec v) { return max(Vec{}, v); }

}  // namespace sam3::simd::SAM3_SIMD_VARIANT
