// Linear layers and convolutions whose weights and activations are coded in fewer bits.
#include "support/simd_variants.h"
#include "support/tensors.h"
#include "util/error.h"

#include <algorithm>
#include <cmath>

namespace sam3 {
namespace {

using test::at;
using test::cpu;
using test::expect_close;
using test::expect_equal;
using test::random_tensor;

struct Sizes {
    int64_t rows, in, out;
};
constexpr Sizes kSizes[] = {{1, 2, 2},     {2, 3, 5},      {7, 33, 17},  {5, 64, 64},  {13, 513, 65},   {6, 1025, 7},
                            {250, 17, 31}, {499, 40, 129}, {61, 700, 1}, {3, 5, 1500}, {31, 1300, 190}, {20, 4736, 70}};

constexpr Precision kCoded[] = {Precision::bf16, Precision::int8};

// Whole numbers from `low` to `high`, both of which every row has: they are coded exactly.
Tensor whole_numbers(const Shape& shape, unsigned seed, int low, int high) {
    Tensor tensor = Tensor::host(shape);
    std::mt19937 generator(seed);
    std::uniform_int_distribution<int> uniform(low, high);
    float* data = tensor.data<float>();
    std::generate_n(data, tensor.numel(), [&] { return static_cast<float>(uniform(generator)); });
    const int64_t depth = tensor.numel() / shape[0];
    for (int64_t row = 0; row < shape[0]; ++row) {
        data[row * depth] = static_cast<float>(low);
        data[row * depth + depth - 1] = static_cast<float>(high);
    }
    return tensor;
}

Tensor exact_product(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual) {
    Tensor result = Tensor::host({x.dim(0), weight.dim(0)});
    for (int64_t r = 0; r < x.dim(0); ++r)
        for (int64_t o = 0; o < weight.dim(0); ++o) {
            double sum = static_cast<double>(at(bias, o)) + static_cast<double>(at(residual, r * weight.dim(0) + o));
            for (int64_t i = 0; i < x.dim(1); ++i)
                sum += static_cast<double>(at(x, r * x.dim(1) + i)) * static_cast<double>(at(weight, o * x.dim(1) + i));
            result.data<float>()[r * weight.dim(0) + o] = static_cast<float>(sum);
        }
    return result;
}

class CodedLinear : public test::SimdVariants {};

TEST_P(CodedLinear, IsExactOnNumbersThatHaveACode) {
    unsigned seed = 1;
    for (const Sizes& s : kSizes) {
        const Tensor x = whole_numbers({s.rows, s.in}, ++seed, -100, 155);
        const Tensor weight = whole_numbers({s.out, s.in}, ++seed, -90, 127);
        const Tensor bias = whole_numbers({s.out}, ++seed, -50, 50);
        const Tensor residual = whole_numbers({s.rows, s.out}, ++seed, -50, 50);
        const auto packed = cpu().pack_linear({{weight}, {bias}}, Precision::int8);
        SCOPED_TRACE(testing::Message() << s.rows << " x " << s.in << " -> " << s.out);
        expect_close(Ops(cpu(), 2).linear(x, *packed, Activation::none, residual),
                     exact_product(x, weight, bias, residual), 2e-7);
    }
}

// bf16 has 8 bits: whole numbers up to 256 are exact, and sums up to 2^24 are exact in f32.
TEST_P(CodedLinear, Bf16IsExactOnSmallWholeNumbers) {
    unsigned seed = 1;
    for (const Sizes& s : kSizes) {
        const Tensor x = whole_numbers({s.rows, s.in}, ++seed, -40, 50);
        const Tensor weight = whole_numbers({s.out, s.in}, ++seed, -30, 60);
        const Tensor bias = whole_numbers({s.out}, ++seed, -50, 50);
        const Tensor residual = whole_numbers({s.rows, s.out}, ++seed, -50, 50);
        const auto packed = cpu().pack_linear({{weight}, {bias}}, Precision::bf16);
        SCOPED_TRACE(testing::Message() << s.rows << " x " << s.in << " -> " << s.out);
        expect_equal(Ops(cpu(), 2).linear(x, *packed, Activation::none, residual),
                     exact_product(x, weight, bias, residual));
    }
}

// Rounding to the nearest code moves such a sum of 600 products by 0.07 on average, of a range of 57; five times that
// is allowed.
TEST_P(CodedLinear, IsAsCloseAsItsCodesAre) {
    const Tensor x = random_tensor({37, 600}, 1, -0.5F, 2.0F);
    const Tensor weight = random_tensor({75, 600}, 2);
    const Tensor bias = random_tensor({75}, 3);
    const Tensor residual = random_tensor({37, 75}, 4);
    const Tensor expected =
        Ops(cpu(), 1).linear(x, *cpu().pack_linear({{weight}, {bias}}, Precision::f32), Activation::gelu, residual);
    const auto error = [&](Precision precision) {
        const auto packed = cpu().pack_linear({{weight}, {bias}}, precision);
        return test::relative_error(Ops(cpu(), 2).linear(x, *packed, Activation::gelu, residual), expected);
    };
    EXPECT_LT(error(Precision::int8), 6e-3);
    EXPECT_LT(error(Precision::bf16), 2.5e-3);
    EXPECT_GT(error(Precision::int8), 1e-4);  // else these were not codes
    EXPECT_GT(error(Precision::bf16), 1e-4);
}

TEST_P(CodedLinear, GivesTheSameBitsForAnyNumberOfThreadsAndAnyOtherRows) {
    for (const Precision precision : kCoded)
        for (const Sizes& s : {Sizes{1, 4736, 256}, Sizes{200, 256, 256}, Sizes{500, 700, 300}}) {
            const Tensor x = random_tensor({s.rows, s.in}, 1);
            const auto packed = cpu().pack_linear({{random_tensor({s.out, s.in}, 2)}, {}}, precision);
            const Tensor expected = Ops(cpu(), 1).linear(x, *packed, Activation::gelu);
            for (const int threads : {2, 5})
                expect_equal(Ops(cpu(), threads).linear(x, *packed, Activation::gelu), expected);
            const int64_t last = s.rows - 1;
            expect_equal(Ops(cpu(), 2).linear(x.slice(0, last, 1), *packed, Activation::gelu),
                         expected.slice(0, last, 1));
        }
}

TEST_P(CodedLinear, ConvolutionsAreTheSameProduct) {
    const Tensor x = whole_numbers({1, 9, 11, 40}, 1, -100, 155);
    const Tensor weight = whole_numbers({70, 40, 3, 3}, 2, -90, 127);
    for (const Precision precision : kCoded) {
        const auto exact = cpu().pack_conv2d({weight, {}, 1, 1}, Precision::f32);
        const auto coded = cpu().pack_conv2d({weight, {}, 1, 1}, precision);
        // A window need not hold the largest numbers, so int8 rounds here.
        expect_close(Ops(cpu(), 2).conv2d(x, *coded), Ops(cpu(), 2).conv2d(x, *exact),
                     precision == Precision::int8 ? 3e-3 : 1e-6);
    }
}

TEST_P(CodedLinear, ZerosAndConstantRowsHaveCodes) {
    Tensor x = Tensor::host({4, 20});
    float* data = x.data<float>();
    for (int64_t i = 0; i < 20; ++i) {
        data[i] = 0.0F;
        data[20 + i] = 7.5F;
        data[40 + i] = -7.5F;
        data[60 + i] = i == 19 ? 1e-30F : 0.0F;
    }
    const Tensor weight = whole_numbers({3, 20}, 1, -127, 127);
    const Tensor zeros = Tensor::host({3, 20});
    std::fill_n(zeros.data<float>(), 60, 0.0F);
    for (const Precision precision : kCoded) {
        const auto exact = cpu().pack_linear({{weight}, {}}, Precision::f32);
        expect_close(Ops(cpu(), 1).linear(x, *cpu().pack_linear({{weight}, {}}, precision)),
                     Ops(cpu(), 1).linear(x, *exact), 1e-6);
        const Tensor nothing = Ops(cpu(), 1).linear(x, *cpu().pack_linear({{zeros}, {}}, precision));
        for (int64_t i = 0; i < nothing.numel(); ++i) EXPECT_EQ(at(nothing, i), 0.0F);
    }
}

// Codes and scales as a file holds them, by the definition: rounded once, ties to even.
LayerWeights coded_by_hand(const Tensor& weight) {
    const int64_t out = weight.dim(0), depth = weight.numel() / out;
    LayerWeights coded{Tensor::host(weight.shape(), DType::i8), Tensor::host({out})};
    for (int64_t row = 0; row < out; ++row) {
        float range = 0;
        for (int64_t i = 0; i < depth; ++i) range = std::max(range, std::abs(at(weight, row * depth + i)));
        const auto factor = static_cast<double>(127.0F / range);
        coded.scales.data<float>()[row] = range / 127.0F;
        for (int64_t i = 0; i < depth; ++i)
            coded.values.data<int8_t>()[row * depth + i] =
                static_cast<int8_t>(std::nearbyint(static_cast<double>(at(weight, row * depth + i)) * factor));
    }
    return coded;
}

TEST_P(CodedLinear, PreparedCodesGiveTheBitsOfTheWeightsThatTheyWereMadeFrom) {
    unsigned seed = 1;
    for (const Sizes& s : kSizes) {
        const Tensor x = random_tensor({s.rows, s.in}, ++seed);
        const Tensor weight = random_tensor({s.out, s.in}, ++seed);
        SCOPED_TRACE(testing::Message() << s.rows << " x " << s.in << " -> " << s.out);
        expect_equal(Ops(cpu(), 2).linear(x, *cpu().pack_linear({{coded_by_hand(weight)}, {}}, Precision::int8)),
                     Ops(cpu(), 2).linear(x, *cpu().pack_linear({{weight}, {}}, Precision::int8)));
    }
    const Tensor x = random_tensor({1, 9, 11, 40}, 1);
    const Tensor weight = random_tensor({70, 40, 3, 3}, 2);
    expect_equal(Ops(cpu(), 2).conv2d(x, *cpu().pack_conv2d({coded_by_hand(weight), {}, 1, 1}, Precision::int8)),
                 Ops(cpu(), 2).conv2d(x, *cpu().pack_conv2d({weight, {}, 1, 1}, Precision::int8)));
}

// Matrices whose borders lie inside a panel, coded and not, are one product.
TEST_P(CodedLinear, StackedMatricesOfBothKindsAreOneProduct) {
    const Tensor x = random_tensor({5, 70}, 1);
    const Tensor q = random_tensor({50, 70}, 2), k = random_tensor({33, 70}, 3), v = random_tensor({90, 70}, 4);
    const LayerWeights coded_k = coded_by_hand(k), coded_v = coded_by_hand(v);
    for (const Precision precision : {Precision::f32, Precision::bf16, Precision::int8}) {
        const Tensor all = Ops(cpu(), 2).linear(x, *cpu().pack_linear({{q, coded_k, coded_v}, {}}, precision));
        const auto expect_part = [&](const LayerWeights& weight, int64_t first, int64_t count) {
            expect_equal(Ops(cpu(), 1).contiguous(all.slice(1, first, count)),
                         Ops(cpu(), 2).linear(x, *cpu().pack_linear({{weight}, {}}, precision)));
        };
        expect_part(q, 0, 50);
        expect_part(coded_k, 50, 33);
        expect_part(coded_v, 83, 90);
    }
}

TEST_P(CodedLinear, CodesAreDecodedForOtherPrecisions) {
    const Tensor weight = whole_numbers({40, 33}, 1, -127, 127);  // their own codes, with scale 1
    const LayerWeights coded = coded_by_hand(weight);
    const Tensor x = random_tensor({7, 33}, 2);
    for (const Precision precision : {Precision::f32, Precision::bf16})
        expect_equal(Ops(cpu(), 2).linear(x, *cpu().pack_linear({{coded}, {}}, precision)),
                     Ops(cpu(), 2).linear(x, *cpu().pack_linear({{weight}, {}}, precision)));
    const Tensor kernels = whole_numbers({6, 1, 3, 3}, 3, -127, 127);
    const Tensor image = random_tensor({1, 5, 5, 6}, 4);
    expect_equal(
        Ops(cpu(), 1).conv2d(image, *cpu().pack_conv2d({coded_by_hand(kernels), {}, 1, 1, 6}, Precision::int8)),
        Ops(cpu(), 1).conv2d(image, *cpu().pack_conv2d({kernels, {}, 1, 1, 6}, Precision::int8)));
}

TEST_P(CodedLinear, RefusesScalesThatDoNotFit) {
    const LayerWeights coded = coded_by_hand(random_tensor({6, 5}, 1));
    EXPECT_THROW(cpu().pack_linear({{{coded.values, random_tensor({5}, 1)}}, {}}, Precision::int8), Error);
    EXPECT_THROW(cpu().pack_linear({{coded.values}, {}}, Precision::int8), Error);
    EXPECT_THROW(cpu().pack_linear({{{random_tensor({6, 5}, 1), coded.scales}}, {}}, Precision::int8), Error);
}

SAM3_TEST_SIMD_VARIANTS(CodedLinear);

}  // namespace
}  // namespace sam3
