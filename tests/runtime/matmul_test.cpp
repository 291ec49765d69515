#include "support/tensors.h"

#include <gtest/gtest.h>

namespace sam3 {
namespace {

using test::at;
using test::cpu;
using test::expect_close;
using test::expect_equal;
using test::random_strided;
using test::random_tensor;

Tensor reference_matmul(const Tensor& a, const Tensor& b, bool transpose_b, double alpha) {
    const int64_t batch = a.dim(0);
    const int64_t m = a.dim(1);
    const int64_t k = a.dim(2);
    const int64_t n = transpose_b ? b.dim(1) : b.dim(2);
    Tensor result = Tensor::host({batch, m, n});
    for (int64_t i = 0; i < batch; ++i)
        for (int64_t r = 0; r < m; ++r)
            for (int64_t c = 0; c < n; ++c) {
                double sum = 0;
                for (int64_t j = 0; j < k; ++j) {
                    const int64_t at_b = transpose_b ? (i * n + c) * k + j : (i * k + j) * n + c;
                    sum += static_cast<double>(at(a, (i * m + r) * k + j)) * static_cast<double>(at(b, at_b));
                }
                result.data<float>()[(i * m + r) * n + c] = static_cast<float>(alpha * sum);
            }
    return result;
}

struct Sizes {
    int64_t batch, m, k, n;
};
constexpr Sizes kSizes[] = {{1, 1, 1, 1},     {7, 1, 33, 256}, {2, 3, 5, 7},  {1, 20, 256, 300}, {3, 17, 64, 33},
                            {1, 5, 1100, 40}, {1, 300, 9, 16}, {50, 2, 2, 2}, {1, 4, 32, 3000},  {2, 65, 600, 65}};

TEST(Matmul, EqualsThePlainLoopOnAllSizes) {
    unsigned seed = 1;
    for (const Sizes& s : kSizes) {
        for (const bool transposed : {false, true}) {
            const Tensor a = random_tensor({s.batch, s.m, s.k}, ++seed);
            const Tensor b = random_tensor(transposed ? Shape{s.batch, s.n, s.k} : Shape{s.batch, s.k, s.n}, ++seed);
            const Tensor one = Ops(cpu(), 1).matmul(a, b, transposed, 0.25F);
            expect_close(one, reference_matmul(a, b, transposed, 0.25), 2e-6);
            for (const int threads : {2, 3}) expect_equal(Ops(cpu(), threads).matmul(a, b, transposed, 0.25F), one);
        }
    }
}

TEST(Matmul, ReadsStridedAndExpandedOperands) {
    for (const bool transposed : {false, true}) {
        const Tensor a = random_strided({3, 11, 40}, 1);
        const Tensor b = random_strided(transposed ? Shape{1, 70, 40} : Shape{1, 40, 70}, 2);
        Ops ops(cpu(), 2);
        expect_close(ops.matmul(a, b.expand(0, 3), transposed), reference_matmul(a, b.expand(0, 3), transposed, 1),
                     2e-6);
        const Tensor row = random_tensor({1, 1, 40}, 3).expand(1, 6);
        expect_close(ops.matmul(row, b, transposed), reference_matmul(row, b, transposed, 1), 2e-6);
    }
}

TEST(Matmul, AddsAnOffsetToEachRow) {
    unsigned seed = 1;
    for (const Sizes& s : kSizes) {
        const Tensor a = random_tensor({s.batch, s.m, s.k}, ++seed);
        const Tensor b = random_tensor({s.batch, s.n, s.k}, ++seed);
        const Tensor offsets = random_tensor({s.batch, s.m, 1}, ++seed);
        Tensor expected = reference_matmul(a, b, true, 0.25);
        for (int64_t i = 0; i < expected.numel(); ++i) expected.data<float>()[i] += at(offsets, i / s.n);
        expect_close(Ops(cpu(), 2).matmul(a, b, true, 0.25F, offsets), expected, 2e-6);
    }
}

TEST(Matmul, RefusesOffsetsOfAnotherSize) {
    const Tensor a = random_tensor({1, 3, 4}, 1);
    const Tensor b = random_tensor({1, 4, 5}, 2);
    EXPECT_THROW(Ops(cpu(), 1).matmul(a, b, false, 1.0F, random_tensor({1, 5, 1}, 3)), std::exception);
}

TEST(Matmul, OfAnEmptyInnerSizeIsZero) {
    const Tensor a = random_tensor({1, 3, 0}, 1);
    const Tensor b = random_tensor({1, 0, 4}, 2);
    const Tensor y = Ops(cpu(), 1).matmul(a, b);
    for (int64_t i = 0; i < y.numel(); ++i) EXPECT_EQ(at(y, i), 0.0F);
}

}  // namespace
}  // namespace sam3
