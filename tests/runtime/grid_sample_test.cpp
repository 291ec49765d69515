#include "support/operator_goldens.h"

#include <array>

namespace sam3 {
namespace {

using namespace sam3::test;

double plain_sample(const Tensor& x, int64_t n, const float* point, int64_t c) {
    const double column = ((static_cast<double>(point[0]) + 1) * static_cast<double>(x.dim(2)) - 1) / 2;
    const double row = ((static_cast<double>(point[1]) + 1) * static_cast<double>(x.dim(1)) - 1) / 2;
    double sum = 0;
    for (int64_t i = 0; i < x.dim(1); ++i)
        for (int64_t j = 0; j < x.dim(2); ++j)
            sum += std::max(0.0, 1 - std::abs(row - static_cast<double>(i))) *
                   std::max(0.0, 1 - std::abs(column - static_cast<double>(j))) *
                   static_cast<double>(at(x, ((n * x.dim(1) + i) * x.dim(2) + j) * x.dim(3) + c));
    return sum;
}

TEST(GridSample, EqualsPlainSampling) {
    const std::array<Shape, 4> shapes = {Shape{1, 1, 1, 1}, Shape{2, 5, 9, 3}, Shape{1, 8, 2, 33}, Shape{3, 1, 6, 256}};
    for (const Shape& shape : shapes) {
        const Tensor x = random_strided(shape, 1);
        const Tensor grid = random_tensor({shape[0], 40, 2}, 2, -1.4F, 1.4F);
        const Tensor y = run_with_threads([&](Ops& ops) { return ops.grid_sample(x, grid); });
        Tensor expected = Tensor::host(y.shape());
        for (int64_t i = 0; i < y.numel(); ++i) {
            const int64_t point = i / shape[3];
            expected.data<float>()[i] =
                static_cast<float>(plain_sample(x, point / 40, grid.data<float>() + 2 * point, i % shape[3]));
        }
        expect_close(y, expected, 3e-6);
    }
}

TEST(GridSample, EqualsTheReference) {
    Ops ops(cpu(), 1);
    for (const OperatorGolden& golden : operator_goldens("grid_sample")) {
        const int n = golden.integer(0);
        const Tensor x = golden_input({2, golden.integer(1), golden.integer(2), golden.integer(3)}, 200 + n);
        expect_golden(ops.grid_sample(x, golden_input({2, 40, 2}, 300 + n, -1.25F, 1.25F)), golden, 1e-6);
    }
}

TEST(GridSample, IsZeroForPointsThatAreNotOnTheMap) {
    Ops ops(cpu(), 1);
    const float inf = std::numeric_limits<float>::infinity();
    const std::array<float, 10> points = {std::nanf(""), 0, inf, 0, 0, -inf, 1e30F, 0, 0, -3};
    Tensor grid = ops.empty({1, 5, 2});
    std::copy(points.begin(), points.end(), grid.data<float>());
    expect_equal(ops.grid_sample(ops.full({1, 4, 4, 2}, 1), grid), ops.full({1, 5, 2}, 0));
}

}  // namespace
}  // namespace sam3
