#include "runtime/cpu/simd/simd.h"
#include "support/reference.h"
#include "support/tensors.h"
#include "util/error.h"

#include <gtest/gtest.h>

namespace sam3 {
namespace {

using test::at;
using test::cpu;
using test::expect_close;
using test::expect_equal;
using test::random_strided;
using test::random_tensor;

Tensor reference_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
                        const Tensor& residual) {
    const int64_t rows = x.rows();
    const int64_t in = x.dim(-1);
    const int64_t out = weight.dim(0);
    Shape shape = x.shape();
    shape[-1] = out;
    Tensor result = Tensor::host(shape);
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t o = 0; o < out; ++o) {
            double sum = bias ? static_cast<double>(at(bias, o)) : 0.0;
            for (int64_t i = 0; i < in; ++i)
                sum += static_cast<double>(at(x, r * in + i)) * static_cast<double>(at(weight, o * in + i));
            sum = test::activate(sum, activation) + (residual ? static_cast<double>(at(residual, r * out + o)) : 0.0);
            result.data<float>()[r * out + o] = static_cast<float>(sum);
        }
    }
    return result;
}

struct Sizes {
    int64_t rows, in, out;
};
// Odd sizes, one of everything, several blocks of depth (above 512), of rows (above 240) and of columns.
constexpr Sizes kSizes[] = {{1, 1, 2},    {1, 2048, 3},  {2, 3, 5},      {7, 33, 17},  {5, 64, 64},  {13, 513, 65},
                            {6, 1025, 7}, {250, 17, 31}, {499, 40, 129}, {61, 700, 1}, {3, 5, 1500}, {31, 1300, 190}};

TEST(Linear, EqualsThePlainLoopOnAllSizes) {
    unsigned seed = 1;
    for (const Sizes& s : kSizes) {
        const Tensor x = random_tensor({s.rows, s.in}, ++seed);
        const Tensor weight = random_tensor({s.out, s.in}, ++seed);
        const Tensor bias = random_tensor({s.out}, ++seed);
        const Tensor residual = random_tensor({s.rows, s.out}, ++seed);
        const auto with_bias = cpu().pack_linear({{weight}, {bias}}, Precision::f32);
        const auto without = cpu().pack_linear({{weight}, {}}, Precision::f32);
        Ops ops(cpu(), 2);
        expect_close(ops.linear(x, *without), reference_linear(x, weight, {}, Activation::none, {}), 2e-6);
        expect_close(ops.linear(x, *with_bias, Activation::gelu, residual),
                     reference_linear(x, weight, bias, Activation::gelu, residual), 2e-6);
    }
}

TEST(Linear, KnowsEveryActivation) {
    const Tensor x = random_tensor({20, 30}, 1, -2, 2);
    const Tensor weight = random_tensor({21, 30}, 2);
    const Tensor bias = random_tensor({21}, 3);
    const Tensor residual = random_tensor({20, 21}, 4);
    const auto packed = cpu().pack_linear({{weight}, {bias}}, Precision::f32);
    Ops ops(cpu(), 1);
    for (const Activation activation : test::kActivations) {
        expect_close(ops.linear(x, *packed, activation), reference_linear(x, weight, bias, activation, {}), 2e-6);
        expect_close(ops.linear(x, *packed, activation, residual),
                     reference_linear(x, weight, bias, activation, residual), 2e-6);
    }
}

TEST(Linear, GivesTheSameBitsForAnyNumberOfThreads) {
    const Sizes sizes[] = {{1, 4736, 256}, {3, 2048, 1000}, {200, 256, 256}, {500, 700, 300}, {30, 6000, 6}};
    for (const Sizes& s : sizes) {
        const Tensor x = random_tensor({s.rows, s.in}, 1);
        const auto packed =
            cpu().pack_linear({{random_tensor({s.out, s.in}, 2)}, {random_tensor({s.out}, 3)}}, Precision::f32);
        const Tensor expected = Ops(cpu(), 1).linear(x, *packed, Activation::gelu);
        for (const int threads : {2, 3, 5})
            expect_equal(Ops(cpu(), threads).linear(x, *packed, Activation::gelu), expected);
    }
}

TEST(Linear, GivesARowTheSameBitsWhateverTheOtherRowsAre) {
    const auto packed = cpu().pack_linear({{random_tensor({90, 800}, 2)}, {}}, Precision::f32);
    const Tensor x = random_tensor({300, 800}, 1);
    Ops ops(cpu(), 2);
    const Tensor all = ops.linear(x, *packed);
    for (const int64_t row : {0, 5, 299}) expect_equal(ops.linear(x.slice(0, row, 1), *packed), all.slice(0, row, 1));
}

TEST(Linear, ReadsStridedInputAndResidual) {
    const Tensor x = random_strided({4, 9, 50}, 1);
    const Tensor residual = random_strided({4, 9, 12}, 2);
    const Tensor weight = random_tensor({12, 50}, 3);
    const auto packed = cpu().pack_linear({{weight}, {}}, Precision::f32);
    expect_close(Ops(cpu(), 2).linear(x, *packed, Activation::relu, residual),
                 reference_linear(x, weight, {}, Activation::relu, residual), 2e-6);
}

TEST(Linear, WritesIntoStridedRowsAndInPlaceOfTheResidual) {
    const Tensor x = random_strided({40, 1100}, 1);
    const Tensor weight = random_tensor({70, 1100}, 2);
    const Tensor bias = random_tensor({70}, 3);
    const auto packed = cpu().pack_linear({{weight}, {bias}}, Precision::f32);
    const Tensor whole = random_tensor({40, 90}, 4);
    const Tensor before = Ops(cpu(), 1).download(whole);
    const Tensor out = whole.slice(1, 11, 70);
    const Tensor expected = reference_linear(x, weight, bias, Activation::silu, before.slice(1, 11, 70));
    cpu().kernels().linear({cpu(), 2}, {x, packed.get(), Activation::silu, out, out});
    expect_close(out, expected, 2e-6);
    expect_equal(whole.slice(1, 0, 11), before.slice(1, 0, 11));
    expect_equal(whole.slice(1, 81, 9), before.slice(1, 81, 9));
}

TEST(Linear, StacksSeveralWeightsByRows) {
    const Tensor x = random_tensor({10, 20}, 1);
    const Tensor q = random_tensor({7, 20}, 2);
    const Tensor k = random_strided({70, 20}, 3);
    const Tensor q_bias = random_tensor({7}, 4);
    const auto packed = cpu().pack_linear({{q, k}, {q_bias, Tensor()}}, Precision::f32);
    EXPECT_EQ(packed->out_features, 77);
    Ops ops(cpu(), 1);
    const Tensor both = ops.linear(x, *packed);
    expect_close(both.slice(1, 0, 7), reference_linear(x, q, q_bias, Activation::none, {}), 2e-6);
    expect_close(both.slice(1, 7, 70), reference_linear(x, k, {}, Activation::none, {}), 2e-6);
}

TEST(Linear, EveryInstructionSetAgrees) {
    const Tensor x = random_tensor({37, 600}, 1);
    const Tensor weight = random_tensor({75, 600}, 2);
    const Tensor bias = random_tensor({75}, 3);
    const Tensor expected = reference_linear(x, weight, bias, Activation::gelu, {});
    const simd::Table& best = simd::table();
    for (const simd::Table* const* table = simd::available_tables(); *table != nullptr; ++table) {
        simd::use_table(**table);
        const auto packed = cpu().pack_linear({{weight}, {bias}}, Precision::f32);
        const Tensor y = Ops(cpu(), 2).linear(x, *packed, Activation::gelu);
        simd::use_table(best);
        SCOPED_TRACE((*table)->name);
        expect_close(y, expected, 2e-6);
        // Weights stay with the instruction set that they were packed for.
        expect_equal(Ops(cpu(), 1).linear(x, *packed, Activation::gelu), y);
    }
}

TEST(Linear, DoesNotSpreadNanBetweenRowsOrColumns) {
    const Tensor x = random_tensor({7, 5}, 1);
    x.data<float>()[5 * 3] = std::nanf("");
    const auto packed = cpu().pack_linear({{random_tensor({3, 5}, 2)}, {}}, Precision::f32);
    const Tensor y = Ops(cpu(), 1).linear(x, *packed);
    for (int64_t i = 0; i < y.numel(); ++i) EXPECT_EQ(std::isnan(at(y, i)), i / 3 == 3);
}

TEST(Linear, RefusesWeightsThatDoNotFit) {
    EXPECT_THROW(cpu().pack_linear({}, Precision::f32), Error);
    EXPECT_THROW(cpu().pack_linear({{random_tensor({3, 4}, 1), random_tensor({3, 5}, 1)}, {}}, Precision::f32), Error);
    EXPECT_THROW(cpu().pack_linear({{random_tensor({3, 4}, 1)}, {random_tensor({4}, 1)}}, Precision::f32), Error);
    EXPECT_THROW(cpu().pack_linear({{random_tensor({3, 4, 1}, 1)}, {}}, Precision::f32), Error);
    EXPECT_THROW(cpu().pack_linear({{random_tensor({3, 4}, 1)}, {Tensor(), Tensor()}}, Precision::f32), Error);
}

// The transposed convolution is a linear layer whose columns become a 2 x 2 block of pixels.
Tensor reference_conv_transpose(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
                                const Tensor& residual) {
    const int64_t h = x.dim(1);
    const int64_t w = x.dim(2);
    const int64_t channels = weight.dim(0) / 4;
    const Tensor blocks = reference_linear(x, weight, bias, activation, {});
    Tensor result = Tensor::host({x.dim(0), 2 * h, 2 * w, channels});
    for (int64_t i = 0; i < result.numel(); ++i) {
        const int64_t c = i % channels;
        const int64_t column = i / channels % (2 * w);
        const int64_t line = i / channels / (2 * w);  // n * 2h + row
        const int64_t n = line / (2 * h);
        const int64_t row = line % (2 * h);
        const int64_t pixel = (n * h + row / 2) * w + column / 2;
        result.data<float>()[i] = at(blocks, pixel * 4 * channels + (row % 2 * 2 + column % 2) * channels + c) +
                                  (residual ? at(residual, i) : 0.0F);
    }
    return result;
}

TEST(ConvTranspose, EqualsThePlainLoop) {
    const Shape inputs[] = {{1, 3, 5, 9}, {2, 1, 1, 4}, {2, 4, 3, 70}, {1, 5, 7, 600}};
    const int64_t outputs[] = {1, 3, 16, 33};
    unsigned seed = 1;
    for (const Shape& shape : inputs) {
        for (const int64_t channels : outputs) {
            const Tensor x = random_tensor(shape, ++seed);
            const Tensor weight = random_tensor({4 * channels, shape[3]}, ++seed);
            const Tensor bias = random_tensor({4 * channels}, ++seed);
            const Tensor residual = random_tensor({shape[0], 2 * shape[1], 2 * shape[2], channels}, ++seed);
            const auto packed = cpu().pack_linear({{weight}, {bias}}, Precision::f32);
            const Tensor one = Ops(cpu(), 1).conv_transpose_2x2(x, *packed, Activation::gelu, residual);
            expect_close(one, reference_conv_transpose(x, weight, bias, Activation::gelu, residual), 2e-6);
            expect_equal(Ops(cpu(), 3).conv_transpose_2x2(x, *packed, Activation::gelu, residual), one);
            expect_close(Ops(cpu(), 2).conv_transpose_2x2(x, *packed),
                         reference_conv_transpose(x, weight, bias, Activation::none, {}), 2e-6);
        }
    }
}

}  // namespace
}  // namespace sam3
