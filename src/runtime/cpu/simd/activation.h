#pragma once

#include "runtime/cpu/simd/simd.h"
#include "runtime/kernels.h"

namespace sam3::simd {

using ArrayFunction = void (*)(float* out, const float* in, int64_t n);

// The activation as a function of the table in use; null for none.
inline ArrayFunction activation_function(Activation activation) {
    switch (activation) {
        case Activation::none: return nullptr;
        case Activation::relu: return table().relu;
        case Activation::gelu: return table().gelu;
        case Activation::gelu_tanh: return table().gelu_tanh;
        case Activation::sigmoid: return table().sigmoid;
        case Activation::silu: return table().silu;
    }
    return nullptr;
}

}  // namespace sam3::simd
