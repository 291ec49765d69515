#pragma once

#include <bit>
#include <cstdint>

// Conversions between element types, one value at a time and without branches, so that loops over them vectorise.
// Narrowing rounds to nearest, ties to even.
namespace sam3::cpu {

struct Half {
    uint16_t bits;
};
struct BFloat16 {
    uint16_t bits;
};

inline float to_float(float x) { return x; }
inline float to_float(int32_t x) { return static_cast<float>(x); }
inline float to_float(uint8_t x) { return static_cast<float>(x); }
inline float to_float(BFloat16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16U); }
inline float to_float(Half x) {
    const uint32_t sign = (x.bits & 0x8000U) << 16U;
    const int32_t magnitude = x.bits & 0x7fff;
    const uint32_t shifted = static_cast<uint32_t>(magnitude) << 13U;
    const uint32_t normal = shifted + (112U << 23U);                 // exponent bias 127 - 15
    const uint32_t special = shifted + (224U << 23U);                // infinity and NaN
    const float small = static_cast<float>(magnitude) * 0x1.0p-24F;  // zero and subnormal
    uint32_t bits = magnitude < 0x400 ? std::bit_cast<uint32_t>(small) : normal;
    bits = magnitude >= 0x7c00 ? special : bits;
    return std::bit_cast<float>(sign | bits);
}

template <typename T>
T from_float(float x);

template <>
inline float from_float<float>(float x) {
    return x;
}

template <>
inline BFloat16 from_float<BFloat16>(float x) {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U;
    const uint32_t quiet_nan = (bits >> 16U) | 0x40U;
    return {static_cast<uint16_t>(x != x ? quiet_nan : rounded)};
}

template <>
inline Half from_float<Half>(float x) {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    const uint32_t sign = (bits >> 16U) & 0x8000U;
    const uint32_t unsigned_magnitude = bits & 0x7fffffffU;
    const int32_t magnitude = static_cast<int32_t>(unsigned_magnitude);
    // From 65520 on, the rounded value is infinity's bits or more.
    const uint32_t rounded = ((unsigned_magnitude + 0xfffU + ((bits >> 13U) & 1U)) >> 13U) - (112U << 10U);
    const int32_t normal = magnitude >= 0x47800000 ? 0x7c00 : static_cast<int32_t>(rounded);
    // Next to 0.5 a float's last place is the unit of a half's subnormals: the addition rounds.
    const int32_t small = std::bit_cast<int32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000;
    int32_t result = magnitude < 0x38800000 ? small : normal;
    result = magnitude > 0x7f800000 ? 0x7e00 : result;
    return {static_cast<uint16_t>(sign | static_cast<uint32_t>(result))};
}

// Rounded and saturated; NaN becomes 0.
template <>
inline uint8_t from_float<uint8_t>(float x) {
    const float positive = x > 0.0F ? x : 0.0F;
    const float limited = positive < 255.0F ? positive : 255.0F;
    return static_cast<uint8_t>(std::bit_cast<uint32_t>(limited + 0x1.0p23F));  // integers are the low bits there
}

// Towards zero, as PyTorch, but saturated; NaN becomes 0.
template <>
inline int32_t from_float<int32_t>(float x) {
    if (!(x > -2147483648.0F)) return x != x ? 0 : INT32_MIN;
    return x < 2147483648.0F ? static_cast<int32_t>(x) : INT32_MAX;
}

template <typename To, typename From>
To convert(From x) {
    return from_float<To>(to_float(x));
}
// Integers do not pass through a float, which would lose digits.
template <>
inline uint8_t convert<uint8_t, int32_t>(int32_t x) {
    return static_cast<uint8_t>(x < 0 ? 0 : (x > 255 ? 255 : x));
}
template <>
inline int32_t convert<int32_t, uint8_t>(uint8_t x) {
    return x;
}

}  // namespace sam3::cpu
