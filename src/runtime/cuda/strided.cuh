#pragma once

#include "runtime/cuda/elements.cuh"
#include "runtime/cuda/kernels.h"
#include "runtime/merged_strides.h"

#include <cstdint>
#include <type_traits>

// Walks tensors of one shape together, whatever their strides: one thread for each element, or for each four
// neighbours where every tensor allows that. Indices are 32 bits wide, because the GPU divides 64 bits slowly.
namespace sam3::cuda {

constexpr int kThreads = 256;  // of a block
constexpr int64_t kMostItems = int64_t{1} << 31;

inline unsigned blocks_of(int64_t items, int64_t each = kThreads) {
    return static_cast<unsigned>(blocks_for(items, each));
}

// How many threads an operator needs that cannot be cut into several launches.
inline uint32_t count_of(const char* op, int64_t items) {
    if (items >= kMostItems) fail(op, ": the result is too large for one step on the GPU; use a smaller batch");
    return static_cast<uint32_t>(items);
}

// The number of this thread in the whole launch.
__device__ inline uint32_t thread_number() { return blockIdx.x * blockDim.x + threadIdx.x; }

// Division of numbers below 2^31 by one that is known at the launch: a multiplication and a shift (Granlund and
// Montgomery).
struct Divisor {
    uint32_t divisor = 1, multiplier = 1, shift = 0;

    Divisor() = default;
    explicit Divisor(int64_t value) : divisor(static_cast<uint32_t>(value)) {
        while ((uint64_t{1} << shift) < divisor) ++shift;
        multiplier =
            static_cast<uint32_t>((uint64_t{1} << 32U) * ((uint64_t{1} << shift) - divisor) / divisor + uint64_t{1});
    }
    __host__ __device__ uint32_t quotient(uint32_t n) const {
        const auto high = static_cast<uint32_t>((static_cast<uint64_t>(n) * multiplier) >> 32U);
        return (high + n) >> shift;
    }
    // The remainder; n becomes the quotient.
    __host__ __device__ uint32_t take(uint32_t& n) const {
        const uint32_t q = quotient(n);
        const uint32_t remainder = n - q * divisor;
        n = q;
        return remainder;
    }
};

template <int N>
struct Walk {
    int rank = 1;
    uint32_t count = 0;
    Divisor size[Shape::kMaxRank];
    int64_t stride[N][Shape::kMaxRank] = {};

    __device__ void offsets(uint32_t index, int64_t (&at)[N]) const {
        for (int t = 0; t < N; ++t) at[t] = 0;
        for (int i = rank - 1; i > 0; --i) {
            const uint32_t position = size[i].take(index);
            for (int t = 0; t < N; ++t) at[t] += position * stride[t][i];
        }
        for (int t = 0; t < N; ++t) at[t] += index * stride[t][0];
    }
    // Whether a tensor has one value for all of an innermost row.
    __host__ __device__ bool repeats(int tensor) const { return stride[tensor][rank - 1] == 0; }
};

inline bool is_aligned(const void* address, size_t bytes) { return reinterpret_cast<uintptr_t>(address) % bytes == 0; }

// Whether the elements of tensor t can be read `width` at a time, each at an address that is a multiple of their size.
template <size_t N>
bool has_steps(const MergedStrides<N>& merged, size_t t, const Tensor& x, int64_t width) {
    if (!is_aligned(x.raw(), static_cast<size_t>(width) * size_of(x.dtype())) || merged.inner_stride(t) != 1)
        return false;
    if (merged.inner_size() % width != 0) return false;
    for (int i = 0; i + 1 < merged.rank; ++i)
        if (merged.strides[t][i] % width != 0) return false;
    return true;
}

// The same, or one value for all of a row.
template <size_t N>
bool has_fours(const MergedStrides<N>& merged, size_t t, const Tensor& x) {
    return merged.inner_size() % 4 == 0 && (merged.inner_stride(t) == 0 || has_steps(merged, t, x, 4));
}

// Calls `start(walk, offsets)` for parts that 32-bit indices can count: nearly always one. `width` elements of an
// innermost row are one item of the walk.
template <size_t N, typename Start>
void for_each_part(MergedStrides<N> merged, int64_t width, const Start& start, std::array<int64_t, N> offsets = {}) {
    const int last = merged.rank - 1;
    if (merged.total / width < kMostItems) {
        Walk<static_cast<int>(N)> walk;
        walk.rank = merged.rank;
        walk.count = static_cast<uint32_t>(merged.total / width);
        for (int i = 0; i <= last; ++i) {
            const int64_t step = i == last ? width : 1;
            walk.size[i] = Divisor(merged.dims[i] / step);
            for (size_t t = 0; t < N; ++t) walk.stride[t][i] = merged.strides[t][i] * step;
        }
        return start(walk, offsets);
    }
    int cut = 0;
    while (merged.dims[cut] == 1) ++cut;
    const int64_t whole = merged.dims[cut];
    const int64_t half = cut == last ? whole / 2 / width * width : whole / 2;
    const int64_t others = merged.total / whole;
    merged.dims[cut] = half;
    merged.total = others * half;
    for_each_part(merged, width, start, offsets);
    merged.dims[cut] = whole - half;
    merged.total = others * (whole - half);
    for (size_t t = 0; t < N; ++t) offsets[t] += half * merged.strides[t][cut];
    for_each_part(merged, width, start, offsets);
}

// How many elements a thread has: a number that is known when the kernel is compiled.
template <int N>
using Width = std::integral_constant<int, N>;

template <typename F>
void for_width(bool fours, const F& f) {
    if (fours)
        f(Width<4>{});
    else
        f(Width<1>{});
}

// One element is in x; what the other three are does not matter then.
template <int kWidth, typename T>
__device__ inline float4 load_some(const T* p) {
    if constexpr (kWidth == 4) {
        return load4(p);
    } else {
        return {to_float(*p), 0.0F, 0.0F, 0.0F};
    }
}
template <int kWidth, typename T>
__device__ inline void store_some(T* p, float4 v) {
    if constexpr (kWidth == 4)
        store4(p, v);
    else
        *p = from_float<T>(v.x);
}

template <typename F>
__device__ inline float4 map4(float4 v, const F& f) {
    return {f(v.x), f(v.y), f(v.z), f(v.w)};
}

// sum + weight * v
__device__ inline float4 add_scaled(float4 sum, float weight, float4 v) {
    return {sum.x + weight * v.x, sum.y + weight * v.y, sum.z + weight * v.z, sum.w + weight * v.w};
}

}  // namespace sam3::cuda
