#pragma once

#include "runtime/kernels.h"
#include "util/error.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

// What device code shares: element types, activations, strided views, sums over a warp.
namespace sam3::cuda {

using bf16 = __nv_bfloat16;

template <typename T>
struct Type {
    using type = T;
};

// Calls `f(Type<T>{})` with the C++ type of a floating-point tensor.
template <typename F>
void for_float_type(DType type, const F& f) {
    switch (type) {
        case DType::f32: return f(Type<float>{});
        case DType::bf16: return f(Type<bf16>{});
        default: fail("this operator of the GPU takes f32 and bf16, found ", name_of(type));
    }
}

// The same where f16 is possible too: the sum of an image encoder's layers.
template <typename F>
void for_sum_type(DType type, const F& f) {
    if (type == DType::f16)
        f(Type<__half>{});
    else
        for_float_type(type, f);
}

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(bf16 x) { return __bfloat162float(x); }
__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(uint8_t x) { return static_cast<float>(x); }
__device__ inline float to_float(int32_t x) { return static_cast<float>(x); }

template <typename T>
__device__ inline T from_float(float x) {
    return static_cast<T>(x);
}
template <>
__device__ inline bf16 from_float<bf16>(float x) {
    return __float2bfloat16(x);
}
template <>
__device__ inline __half from_float<__half>(float x) {
    return __float2half(x);
}

// Four neighbouring elements in one access; the address must be a multiple of their size.
__device__ inline float4 load4(const float* p) { return *reinterpret_cast<const float4*>(p); }
__device__ inline float4 load4(const bf16* p) {
    const uint2 bits = *reinterpret_cast<const uint2*>(p);
    const float2 a = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&bits.x));
    const float2 b = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&bits.y));
    return {a.x, a.y, b.x, b.y};
}
__device__ inline float4 load4(const __half* p) {
    const uint2 bits = *reinterpret_cast<const uint2*>(p);
    const float2 a = __half22float2(*reinterpret_cast<const __half2*>(&bits.x));
    const float2 b = __half22float2(*reinterpret_cast<const __half2*>(&bits.y));
    return {a.x, a.y, b.x, b.y};
}
__device__ inline void store4(float* p, float4 v) { *reinterpret_cast<float4*>(p) = v; }
// Two pairs of halves.
template <typename Pair>
__device__ inline void store_pairs(void* p, Pair a, Pair b) {
    uint2 bits;
    bits.x = *reinterpret_cast<const unsigned*>(&a);
    bits.y = *reinterpret_cast<const unsigned*>(&b);
    *static_cast<uint2*>(p) = bits;
}
__device__ inline void store4(bf16* p, float4 v) {
    store_pairs(p, __floats2bfloat162_rn(v.x, v.y), __floats2bfloat162_rn(v.z, v.w));
}
__device__ inline void store4(__half* p, float4 v) {
    store_pairs(p, __floats2half2_rn(v.x, v.y), __floats2half2_rn(v.z, v.w));
}

// Elements of f32 or bf16 in one access of 16 bytes, the widest that there is.
template <typename T>
constexpr int kPiece = 16 / static_cast<int>(sizeof(T));

// Such a piece, whose address must be a multiple of its size, or a single element. Bits that are loaded before the
// first of them is looked at are under way together.
template <int kWidth, typename T>
using PieceBits = std::conditional_t<kWidth == 1, T, uint4>;

template <int kWidth, typename T>
__device__ inline PieceBits<kWidth, T> load_bits(const T* p) {
    return *reinterpret_cast<const PieceBits<kWidth, T>*>(p);
}
template <typename T, int kWidth>
__device__ inline void unpack(PieceBits<kWidth, T> bits, float (&values)[kWidth]) {
    static_assert(kWidth == 1 || kWidth == kPiece<T>);
    const auto* const elements = reinterpret_cast<const T*>(&bits);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] = to_float(elements[i]);
}
template <int kWidth, typename T>
__device__ inline void load_piece(const T* p, float (&values)[kWidth]) {
    unpack<T>(load_bits<kWidth>(p), values);
}
template <int kWidth, typename T>
__device__ inline void store_piece(T* p, const float (&values)[kWidth]) {
    static_assert(kWidth == 1 || kWidth == kPiece<T>);
    if constexpr (kWidth == 1) {
        *p = from_float<T>(values[0]);
    } else if constexpr (kWidth == 4) {
        store4(p, {values[0], values[1], values[2], values[3]});
    } else {
        uint4 bits;
        auto* const pairs = reinterpret_cast<__nv_bfloat162*>(&bits);
#pragma unroll
        for (int i = 0; i < kWidth / 2; ++i) pairs[i] = __floats2bfloat162_rn(values[2 * i], values[2 * i + 1]);
        *reinterpret_cast<uint4*>(p) = bits;
    }
}

__device__ inline float4 plus(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }

__device__ inline float gelu(float x) { return 0.5F * x * (1.0F + erff(x * 0.70710678118654752440F)); }
__device__ inline float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }

__device__ inline float activate(float x, Activation activation) {
    switch (activation) {
        case Activation::none: return x;
        case Activation::relu: return fmaxf(x, 0.0F);
        case Activation::gelu: return gelu(x);
        case Activation::gelu_tanh:
            return 0.5F * x * (1.0F + tanhf(0.79788456080286535588F * (x + 0.044715F * x * x * x)));
        case Activation::sigmoid: return sigmoid(x);
        case Activation::silu: return x * sigmoid(x);
    }
    return x;
}

__device__ inline float warp_sum(float x) {
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffU, x, step);
    return x;
}
__device__ inline float warp_max(float x) {
    for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, step));
    return x;
}

// A tensor's sizes and strides for device code; sizes of the shape that is walked, strides of one tensor.
struct View {
    int rank = 0;
    int64_t size[Shape::kMaxRank] = {};
    int64_t stride[Shape::kMaxRank] = {};

    // The offset of the element with this number in row-major order.
    __device__ int64_t offset(int64_t index) const {
        int64_t at = 0;
        for (int i = rank - 1; i > 0; --i) {
            const int64_t outer = index / size[i];
            at += (index - outer * size[i]) * stride[i];
            index = outer;
        }
        return rank == 0 ? 0 : at + index * stride[0];
    }
};

inline View view_of(const Tensor& x) {
    View view;
    view.rank = x.rank();
    for (int i = 0; i < x.rank(); ++i) {
        view.size[i] = x.dim(i);
        view.stride[i] = x.stride(i);
    }
    return view;
}

}  // namespace sam3::cuda
