#include "support/simd_variants.h"
#include "support/tensors.h"

#include "util/error.h"

#include <cmath>

namespace sam3 {
namespace {

using test::at;
using test::cpu;
using test::expect_close;
using test::expect_equal;
using test::random_strided;
using test::random_tensor;

double activate(double x, Activation activation) {
    switch (activation) {
        case Activation::none: return x;
        case Activation::relu: return std::max(0.0, x);
        case Activation::gelu: return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
        case Activation::gelu_tanh:
            return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
        case Activation::sigmoid: return 1.0 / (1.0 + std::exp(-x));
        case Activation::silu: return x / (1.0 + std::exp(-x));
    }
    return x;
}

Tensor reference(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps, Activation activation) {
    Tensor out = Tensor::host(x.shape());
    const int64_t n = x.dim(-1);
    for (int64_t r = 0; r < x.numel() / n; ++r) {
        double mean = 0;
        double variance = 0;
        for (int64_t i = 0; i < n; ++i) mean += static_cast<double>(at(x, r * n + i)) / static_cast<double>(n);
        for (int64_t i = 0; i < n; ++i)
            variance += std::pow(static_cast<double>(at(x, r * n + i)) - mean, 2) / static_cast<double>(n);
        for (int64_t i = 0; i < n; ++i) {
            const double y = (static_cast<double>(at(x, r * n + i)) - mean) / std::sqrt(variance + eps);
            out.data<float>()[r * n + i] = static_cast<float>(
                activate(y * static_cast<double>(at(gamma, i)) + static_cast<double>(at(beta, i)), activation));
        }
    }
    return out;
}

class LayerNorm : public test::SimdVariants {};

TEST_P(LayerNorm, EqualsTheDefinitionOnManySizes) {
    for (int64_t channels : {1, 2, 3, 7, 16, 31, 64, 100, 256, 1023, 1024, 1280})
        for (int64_t rows : {1, 5}) {
            const Tensor x = random_strided({rows, channels}, 1, -3.0F, 5.0F);
            const Tensor gamma = random_tensor({channels}, 2);
            const Tensor beta = random_tensor({channels}, 3);
            expect_close(Ops(cpu(), 2).layer_norm(x, gamma, beta, 1e-5F),
                         reference(x, gamma, beta, 1e-5, Activation::none), 1e-6);
        }
}

TEST_P(LayerNorm, AppliesTheActivation) {
    const Tensor x = random_strided({2, 5, 50}, 4, -3.0F, 5.0F);
    const Tensor gamma = random_tensor({50}, 5, 0.5F, 2.0F);
    const Tensor beta = random_tensor({50}, 6);
    for (Activation a :
         {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::sigmoid, Activation::silu})
        expect_close(Ops(cpu(), 2).layer_norm(x, gamma, beta, 1e-6F, a), reference(x, gamma, beta, 1e-6, a), 1e-6);
}

TEST_P(LayerNorm, IsAccurateFarFromZero) {
    const Tensor x = random_tensor({8, 1024}, 7, 999.0F, 1001.0F);
    const Tensor gamma = random_tensor({1024}, 8);
    const Tensor beta = random_tensor({1024}, 9);
    expect_close(Ops(cpu(), 1).layer_norm(x, gamma, beta, 1e-6F), reference(x, gamma, beta, 1e-6, Activation::none),
                 1e-4);
}

TEST_P(LayerNorm, AConstantRowGivesBeta) {
    const Tensor x = Ops(cpu(), 1).full({2, 48}, 3.5F);
    const Tensor gamma = random_tensor({48}, 10);
    const Tensor beta = random_tensor({48}, 11);
    const Tensor out = Ops(cpu(), 1).layer_norm(x, gamma, beta, 1e-6F);
    for (int64_t i = 0; i < 96; ++i) EXPECT_EQ(at(out, i), at(beta, i % 48));
}

TEST_P(LayerNorm, ResultsDoNotDependOnTheNumberOfThreads) {
    const Tensor x = random_tensor({301, 333}, 12);
    const Tensor gamma = random_tensor({333}, 13);
    const Tensor beta = random_tensor({333}, 14);
    const Tensor one = Ops(cpu(), 1).layer_norm(x, gamma, beta, 1e-6F, Activation::gelu);
    for (int threads : {2, 3})
        expect_equal(Ops(cpu(), threads).layer_norm(x, gamma, beta, 1e-6F, Activation::gelu), one);
}

SAM3_TEST_SIMD_VARIANTS(LayerNorm);

TEST_P(LayerNorm, AddsRowsThatRepeat) {
    const Tensor x = random_tensor({3, 5, 24}, 1);
    const Tensor gamma = random_tensor({24}, 2), beta = random_tensor({24}, 3);
    Ops ops(cpu(), 2);
    const Tensor norm = ops.layer_norm(x, gamma, beta, 1e-5F);
    for (const Shape& shape : {Shape{5, 24}, Shape{1, 5, 24}, Shape{3, 5, 24}}) {
        const Tensor added = random_tensor(shape, 4);
        const auto [same, sum] = ops.layer_norm_and_sum(x, gamma, beta, 1e-5F, added);
        expect_equal(same, norm);
        expect_equal(sum, ops.add(norm, added));
    }
    for (const Shape& shape : {Shape{3, 1, 24}, Shape{3, 24}, Shape{24}, Shape{5, 1}, Shape{2, 5, 24}})
        EXPECT_THROW(ops.layer_norm_and_sum(x, gamma, beta, 1e-5F, random_tensor(shape, 4)), Error);
    expect_equal(ops.layer_norm_and_sum(x, gamma, beta, 1e-5F, {}).second, norm);
}

}  // namespace
}  // namespace sam3
