#include "support/operator_goldens.h"

#include <array>

namespace sam3 {
namespace {

using namespace sam3::test;

TEST(MaxPool, EqualsPlainMaximum) {
    const std::array<std::array<int64_t, 5>, 5> cases = {
        {{1, 1, 1, 1, 1}, {5, 6, 3, 2, 2}, {9, 7, 17, 3, 2}, {8, 8, 1, 4, 3}, {72, 70, 40, 2, 2}}};
    for (const auto& [h, w, c, kernel, stride] : cases) {
        const Tensor x = random_strided({2, h, w, c}, 1);
        const int k = static_cast<int>(kernel);
        const int s = static_cast<int>(stride);
        const Tensor y = run_with_threads([&](Ops& ops) { return ops.max_pool(x, k, s); });
        for (int64_t i = 0; i < y.numel(); ++i) {
            const int64_t column = i / c % y.dim(2) * s;
            const int64_t row = i / c / y.dim(2) % y.dim(1) * s;
            const int64_t n = i / c / y.dim(2) / y.dim(1);
            float best = -2;
            for (int64_t dy = 0; dy < k; ++dy)
                for (int64_t dx = 0; dx < k; ++dx)
                    best = std::max(best, at(x, ((n * h + row + dy) * w + column + dx) * c + i % c));
            ASSERT_EQ(at(y, i), best);
        }
    }
}

TEST(MaxPool, EqualsTheReference) {
    Ops ops(cpu(), 1);
    for (const OperatorGolden& golden : operator_goldens("max_pool")) {
        const Shape shape{2, golden.integer(1), golden.integer(2), golden.integer(3)};
        const Tensor x = golden_input(shape, 400 + golden.integer(0));
        expect_golden(ops.max_pool(x, golden.integer(4), golden.integer(5)), golden, 0);
    }
}

TEST(MaxPool, KeepsNanAndMinusInfinity) {
    Ops ops(cpu(), 1);
    Tensor x = ops.full({1, 2, 4, 1}, -std::numeric_limits<float>::infinity());
    x.data<float>()[1] = std::numeric_limits<float>::quiet_NaN();
    const Tensor y = ops.max_pool(x, 2, 2);
    EXPECT_TRUE(std::isnan(at(y, 0)));
    EXPECT_EQ(at(y, 1), -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace sam3
