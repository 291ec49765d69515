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

Tensor reference(const Tensor& x, int groups, const Tensor& gamma, const Tensor& beta, double eps,
                 Activation activation) {
    Tensor out = Tensor::host(x.shape());
    const int64_t pixels = x.dim(1) * x.dim(2);
    const int64_t channels = x.dim(3);
    const int64_t width = channels / groups;
    const double count = static_cast<double>(pixels * width);
    for (int64_t item = 0; item < x.dim(0) * groups; ++item) {
        const int64_t first = item % groups * width;
        const auto index = [&](int64_t p, int64_t c) { return (item / groups * pixels + p) * channels + first + c; };
        double mean = 0;
        double variance = 0;
        for (int64_t p = 0; p < pixels; ++p)
            for (int64_t c = 0; c < width; ++c) mean += static_cast<double>(at(x, index(p, c)));
        mean /= count;
        for (int64_t p = 0; p < pixels; ++p)
            for (int64_t c = 0; c < width; ++c) variance += std::pow(static_cast<double>(at(x, index(p, c))) - mean, 2);
        variance /= count;
        for (int64_t p = 0; p < pixels; ++p)
            for (int64_t c = 0; c < width; ++c) {
                const double y = (static_cast<double>(at(x, index(p, c))) - mean) / std::sqrt(variance + eps) *
                                     static_cast<double>(at(gamma, first + c)) +
                                 static_cast<double>(at(beta, first + c));
                out.data<float>()[index(p, c)] =
                    static_cast<float>(activation == Activation::relu ? std::max(0.0, y) : y);
            }
    }
    return out;
}

class GroupNorm : public test::SimdVariants {};

TEST_P(GroupNorm, EqualsTheDefinitionOnManySizes) {
    struct Case {
        int64_t batch, height, width, channels;
        int groups;
    };
    for (const Case& c : {Case{1, 1, 1, 1, 1}, Case{1, 1, 1, 8, 2}, Case{2, 3, 5, 6, 3}, Case{1, 7, 9, 256, 8},
                          Case{2, 17, 19, 33, 11}, Case{1, 40, 41, 72, 1}, Case{1, 30, 30, 21, 21}}) {
        const Tensor x = random_strided({c.batch, c.height, c.width, c.channels}, 1, -2.0F, 4.0F);
        const Tensor gamma = random_tensor({c.channels}, 2);
        const Tensor beta = random_tensor({c.channels}, 3);
        for (Activation a : {Activation::none, Activation::relu})
            expect_close(Ops(cpu(), 2).group_norm(x, c.groups, gamma, beta, 1e-5F, a),
                         reference(x, c.groups, gamma, beta, 1e-5, a), 1e-6);
    }
}

TEST_P(GroupNorm, IsAccurateFarFromZero) {
    const Tensor x = random_tensor({1, 33, 29, 32}, 4, 99.0F, 101.0F);
    const Tensor gamma = random_tensor({32}, 5);
    const Tensor beta = random_tensor({32}, 6);
    expect_close(Ops(cpu(), 2).group_norm(x, 4, gamma, beta, 1e-5F),
                 reference(x, 4, gamma, beta, 1e-5, Activation::none), 1e-5);
}

TEST_P(GroupNorm, ResultsDoNotDependOnTheNumberOfThreads) {
    const Tensor x = random_tensor({2, 37, 41, 64}, 7);
    const Tensor gamma = random_tensor({64}, 8);
    const Tensor beta = random_tensor({64}, 9);
    const Tensor one = Ops(cpu(), 1).group_norm(x, 8, gamma, beta, 1e-5F, Activation::silu);
    for (int threads : {2, 3, 5})
        expect_equal(Ops(cpu(), threads).group_norm(x, 8, gamma, beta, 1e-5F, Activation::silu), one);
}

SAM3_TEST_SIMD_VARIANTS(GroupNorm);

}  // namespace
}  // namespace sam3
