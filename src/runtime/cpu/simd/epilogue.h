#pragma once

#include "runtime/cpu/simd/gemm.h"
#include "runtime/cpu/simd/vec_math.h"

namespace sam3::simd::SAM3_SIMD_VARIANT {

// Calls f with Index<0> ... Index<N - 1>: with constant indices an array of vectors stays in registers.
template <int I>
struct Index {
    static constexpr int value = I;
};
template <int N, int I = 0, typename Function>
SAM3_INLINE void unroll(const Function& f) {
    if constexpr (I < N) {
        f(Index<I>{});
        unroll<N, I + 1>(f);
    }
}
#define SAM3_UNROLL(count, index, ...) \
    unroll<count>([&]<int index>(Index<index>) __attribute__((always_inline)) { __VA_ARGS__; })

template <Epilogue Activation>
SAM3_INLINE Vec activate(Vec v) {
    if constexpr (Activation == Epilogue::relu) return relu(v);
    if constexpr (Activation == Epilogue::gelu) return gelu(v);
    if constexpr (Activation == Epilogue::gelu_tanh) return gelu_tanh(v);
    if constexpr (Activation == Epilogue::sigmoid) return sigmoid(v);
    if constexpr (Activation == Epilogue::silu) return silu(v);
    return v;
}

}  // namespace sam3::simd::SAM3_SIMD_VARIANT
