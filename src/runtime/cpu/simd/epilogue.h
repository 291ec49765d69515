#pragma once

#include "runtime/cpu/simd/gemm.h"
#include "runtime/cpu/simd/vec_math.h"

namespace sam3::simd::SAM3_SIMD_VARIANT {

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
