#include "support/simd_variants.h"
#include "support/tensors.h"

#include <cmath>

namespace sam3 {
namespace {

using test::at;
using test::cpu;
using test::expect_close;
using test::expect_equal;
using test::random_strided;
using test::random_tensor;

Tensor reference(const Tensor& x) {
    Tensor out = Tensor::host(x.shape());
    const int64_t n = x.dim(-1);
    for (int64_t r = 0; r < x.numel() / n; ++r) {
        double maximum = static_cast<double>(at(x, r * n));
        double total = 0;
        for (int64_t i = 0; i < n; ++i) maximum = std::max(maximum, static_cast<double>(at(x, r * n + i)));
        for (int64_t i = 0; i < n; ++i) total += std::exp(static_cast<double>(at(x, r * n + i)) - maximum);
        for (int64_t i = 0; i < n; ++i)
            out.data<float>()[r * n + i] =
                static_cast<float>(std::exp(static_cast<double>(at(x, r * n + i)) - maximum) / total);
    }
    return out;
}

class Softmax : public test::SimdVariants {};

TEST_P(Softmax, EqualsTheDefinitionOnManySizes) {
    for (int64_t columns : {1, 2, 3, 5, 8, 15, 16, 17, 33, 100, 1500}) {
        const Tensor x = random_strided({2, 3, columns}, 1, -8.0F, 8.0F);
        expect_close(Ops(cpu(), 2).softmax(x), reference(x), 1e-6);
    }
}

TEST_P(Softmax, LargeLogitsDoNotOverflow) {
    for (float size : {80.0F, 1000.0F, 1e30F}) {
        const Tensor x = random_tensor({5, 77}, 2, -size, size);
        expect_close(Ops(cpu(), 1).softmax(x), reference(x), 1e-6);
    }
}

TEST_P(Softmax, MinusInfinityGetsNoWeight) {
    const Tensor x = random_tensor({1, 40}, 3);
    for (int64_t i = 0; i < 40; i += 3) x.data<float>()[i] = -std::numeric_limits<float>::infinity();
    const Tensor out = Ops(cpu(), 1).softmax(x);
    expect_close(out, reference(x), 1e-6);
    for (int64_t i = 0; i < 40; i += 3) EXPECT_EQ(at(out, i), 0.0F);
}

TEST_P(Softmax, ANanSpoilsItsRowOnly) {
    const Tensor x = random_tensor({2, 21}, 4);
    x.data<float>()[20] = std::nanf("");
    const Tensor out = Ops(cpu(), 1).softmax(x);
    for (int64_t i = 0; i < 42; ++i) EXPECT_EQ(std::isnan(at(out, i)), i < 21) << i;
}

TEST_P(Softmax, ResultsDoNotDependOnTheNumberOfThreads) {
    const Tensor x = random_tensor({101, 777}, 5);
    const Tensor one = Ops(cpu(), 1).softmax(x);
    for (int threads : {2, 3}) expect_equal(Ops(cpu(), threads).softmax(x), one);
}

SAM3_TEST_SIMD_VARIANTS(Softmax);

}  // namespace
}  // namespace sam3
