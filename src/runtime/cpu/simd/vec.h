#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// One vector of floats as wide as the registers of the instruction set being compiled for, on the compiler's vector
// extension: + - * / < > ?: work lane by lane, and a * b + c becomes one FMA (-ffp-contract=fast) where there is one.
#ifndef SAM3_SIMD_VARIANT
#error "files in simd/kernels are compiled per variant: SAM3_SIMD_VARIANT names its namespace"
#endif

#define SAM3_INLINE static inline __attribute__((always_inline, unused))

namespace sam3::simd::SAM3_SIMD_VARIANT {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kRegisters = 32;
#else
constexpr int kRegisters = 16;
#endif

typedef float Vec __attribute__((vector_size(4 * kLanes)));
typedef int32_t IntVec __attribute__((vector_size(4 * kLanes)));
typedef uint32_t UintVec __attribute__((vector_size(4 * kLanes)));

SAM3_INLINE Vec load(const float* p) {
    Vec v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
SAM3_INLINE void store(float* p, Vec v) { __builtin_memcpy(p, &v, sizeof v); }

// The first n lanes, 0 <= n <= kLanes; the others are zero.
SAM3_INLINE Vec load_first(const float* p, int64_t n) {
    Vec v = {};
    for (int64_t i = 0; i < n; ++i) v[i] = p[i];
    return v;
}
SAM3_INLINE void store_first(float* p, Vec v, int64_t n) {
    for (int64_t i = 0; i < n; ++i) p[i] = v[i];
}

SAM3_INLINE Vec broadcast(float x) { return x - Vec{}; }
SAM3_INLINE IntVec bits(Vec v) { return reinterpret_cast<IntVec>(v); }
SAM3_INLINE Vec from_bits(IntVec v) { return reinterpret_cast<Vec>(v); }

// A NaN in b is kept, one in a is not: the order of the operands matters.
#if defined(__AVX512F__)  // with a full mask: GCC 12 warns about the undefined operand of the plain form
SAM3_INLINE Vec max(Vec a, Vec b) { return _mm512_maskz_max_ps(0xFFFF, a, b); }
SAM3_INLINE Vec min(Vec a, Vec b) { return _mm512_maskz_min_ps(0xFFFF, a, b); }
#elif defined(__AVX__)
SAM3_INLINE Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
SAM3_INLINE Vec min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
#elif defined(__x86_64__)
SAM3_INLINE Vec max(Vec a, Vec b) { return _mm_max_ps(a, b); }
SAM3_INLINE Vec min(Vec a, Vec b) { return _mm_min_ps(a, b); }
#else
SAM3_INLINE Vec max(Vec a, Vec b) { return a > b ? a : b; }
SAM3_INLINE Vec min(Vec a, Vec b) { return a < b ? a : b; }
#endif
SAM3_INLINE Vec abs(Vec v) { return from_bits(bits(v) & 0x7FFFFFFF); }
SAM3_INLINE Vec copy_sign(Vec magnitude, Vec sign) {
    return from_bits((bits(magnitude) & 0x7FFFFFFF) | (bits(sign) & static_cast<int32_t>(0x80000000)));
}

SAM3_INLINE IntVec lane_indices() {
    IntVec v;
    for (int i = 0; i < kLanes; ++i) v[i] = i;
    return v;
}

// Lane i gets lane i ^ Distance.
template <int Distance>
SAM3_INLINE Vec exchange(Vec v) {
#if defined(__AVX512F__)
    if constexpr (Distance == 8)
        return __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    if constexpr (Distance == 4)
        return __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    if constexpr (Distance == 2)
        return __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    return __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
#elif defined(__AVX__)
    if constexpr (Distance == 4) return __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
    if constexpr (Distance == 2) return __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
    return __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6);
#else
    if constexpr (Distance == 2) return __builtin_shufflevector(v, v, 2, 3, 0, 1);
    return __builtin_shufflevector(v, v, 1, 0, 3, 2);
#endif
}

SAM3_INLINE float horizontal_sum(Vec v) {
    if constexpr (kLanes >= 16) v = v + exchange<8>(v);
    if constexpr (kLanes >= 8) v = v + exchange<4>(v);
    v = v + exchange<2>(v);
    v = v + exchange<1>(v);
    return v[0];
}
SAM3_INLINE float horizontal_max(Vec v) {
    if constexpr (kLanes >= 16) v = max(v, exchange<8>(v));
    if constexpr (kLanes >= 8) v = max(v, exchange<4>(v));
    v = max(v, exchange<2>(v));
    v = max(v, exchange<1>(v));
    return v[0];
}

}  // namespace sam3::simd::SAM3_SIMD_VARIANT
