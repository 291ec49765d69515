#pragma once

#include "runtime/kernels.h"

#include <cmath>

// Plain double-precision versions of what operators share.
namespace sam3::test {

inline double activate(double x, Activation activation) {
    switch (activation) {
        case Activation::none: return x;
        case Activation::relu: return x > 0 ? x : 0;
        case Activation::gelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
        case Activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
        case Activation::sigmoid: return 1 / (1 + std::exp(-x));
        case Activation::silu: return x / (1 + std::exp(-x));
    }
    return x;
}

constexpr Activation kActivations[] = {Activation::none,      Activation::relu,    Activation::gelu,
                                       Activation::gelu_tanh, Activation::sigmoid, Activation::silu};

}  // namespace sam3::test
