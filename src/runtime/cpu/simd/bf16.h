#pragma once

#include "runtime/cpu/simd/vec.h"

// Pairs of bf16 numbers, one pair in each lane. bf16 is the upper half of a float, so that a CPU without instructions
// for it multiplies the halves as floats.
namespace sam3::simd::SAM3_SIMD_VARIANT {

// To the upper half: nearest, ties to even; what is no number stays none. In the lower 16 bits of each lane.
SAM3_INLINE UintVec to_bf16(Vec v) {
    const UintVec u = reinterpret_cast<UintVec>(v);
    const UintVec nearest = (u + 0x7FFF + (u >> 16 & 1)) >> 16;
    constexpr int32_t kInfinity = 0x7F800000;
    return bits(abs(v)) > kInfinity ? (u >> 16 | 0x40) : nearest;
}

SAM3_INLINE void store_bf16(uint16_t* to, Vec v) {
    typedef uint16_t Narrow __attribute__((vector_size(2 * kLanes)));
    const Narrow narrow = __builtin_convertvector(to_bf16(v), Narrow);
    __builtin_memcpy(to, &narrow, sizeof narrow);
}

SAM3_INLINE IntVec load_pairs(const uint16_t* p) {
    IntVec pairs;
    __builtin_memcpy(&pairs, p, sizeof pairs);
    return pairs;
}

SAM3_INLINE IntVec broadcast_pair(const uint16_t* p) {
    int32_t pair;
    __builtin_memcpy(&pair, p, sizeof pair);
    return pair - IntVec{};
}

// sum + both products of each lane
#if defined(__AVX512BF16__)
SAM3_INLINE Vec add_pair_products(Vec sum, IntVec a, IntVec b) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}
#else
SAM3_INLINE Vec first_of(IntVec pairs) { return from_bits(pairs << 16); }
SAM3_INLINE Vec second_of(IntVec pairs) { return from_bits(pairs & static_cast<int32_t>(0xFFFF0000)); }
SAM3_INLINE Vec add_pair_products(Vec sum, IntVec a, IntVec b) {
    return first_of(a) * first_of(b) + (second_of(a) * second_of(b) + sum);
}
#endif

}  // namespace sam3::simd::SAM3_SIMD_VARIANT
