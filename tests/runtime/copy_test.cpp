#include "support/operator_goldens.h"
#include "util/error.h"

#include <array>
#include <bit>

namespace sam3 {
namespace {

using namespace sam3::test;

const float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename T>
Tensor values(DType type, const std::vector<T>& list) {
    Tensor tensor = Ops(cpu(), 1).empty({static_cast<int64_t>(list.size())}, type);
    std::copy(list.begin(), list.end(), tensor.data<T>());
    return tensor;
}

template <typename T>
std::vector<T> list(const Tensor& tensor) {
    return std::vector<T>(tensor.data<T>(), tensor.data<T>() + tensor.numel());
}

// The value of a half or bfloat16 by its definition.
double decode(unsigned bits, int exponent_bits, int mantissa_bits) {
    const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const double mantissa = static_cast<double>(bits & ((1U << mantissa_bits) - 1)) / (1 << mantissa_bits);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1)
        return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
    return sign * (exponent == 0 ? std::ldexp(mantissa, 1 - bias) : std::ldexp(1 + mantissa, exponent - bias));
}

struct SmallFloat {
    DType type;
    int exponent_bits, mantissa_bits;
};
constexpr std::array kSmallFloats = {SmallFloat{DType::f16, 5, 10}, SmallFloat{DType::bf16, 8, 7}};

TEST(Copy, WidensEveryHalfAndBfloat16Exactly) {
    Ops ops(cpu(), 2);
    std::vector<uint16_t> all(65536);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
    for (const SmallFloat& kind : kSmallFloats) {
        const Tensor wide = ops.cast(values(kind.type, all), DType::f32);
        for (unsigned i = 0; i < all.size(); ++i) {
            const double expected = decode(i, kind.exponent_bits, kind.mantissa_bits);
            const double actual = static_cast<double>(at(wide, i));
            if (std::isnan(expected))
                ASSERT_TRUE(std::isnan(actual)) << i;
            else
                ASSERT_EQ(std::bit_cast<uint64_t>(actual), std::bit_cast<uint64_t>(expected)) << i;
        }
    }
}

TEST(Copy, NarrowsBackEveryHalfAndBfloat16) {
    Ops ops(cpu(), 2);
    std::vector<uint16_t> all;
    for (const SmallFloat& kind : kSmallFloats) {
        all.clear();
        for (unsigned i = 0; i < 65536; ++i)
            if (!std::isnan(decode(i, kind.exponent_bits, kind.mantissa_bits))) all.push_back(static_cast<uint16_t>(i));
        const Tensor narrow = values(kind.type, all);
        EXPECT_EQ(list<uint16_t>(ops.cast(ops.cast(narrow, DType::f32), kind.type)), all);
    }
}

// Between neighbours: the middle goes to the even one, a hair beside the middle to the nearer one.
TEST(Copy, RoundsToNearestEven) {
    Ops ops(cpu(), 1);
    for (const SmallFloat& kind : kSmallFloats) {
        const unsigned infinity = ((1U << kind.exponent_bits) - 1) << kind.mantissa_bits;
        std::vector<float> inputs;
        std::vector<uint16_t> expected;
        for (unsigned low = 0; low + 1 < infinity; ++low) {
            const double a = decode(low, kind.exponent_bits, kind.mantissa_bits);
            const double b = decode(low + 1, kind.exponent_bits, kind.mantissa_bits);
            const float middle = static_cast<float>((a + b) / 2);
            for (bool negative : {false, true}) {
                const unsigned sign = negative ? 0x8000U : 0U;
                const float s = negative ? -1.0F : 1.0F;
                inputs.push_back(s * middle);
                expected.push_back(static_cast<uint16_t>(sign | (low % 2 == 0 ? low : low + 1)));
                inputs.push_back(s * std::nextafter(middle, 0.0F));
                expected.push_back(static_cast<uint16_t>(sign | low));
                inputs.push_back(s * std::nextafter(middle, kInfinity));
                expected.push_back(static_cast<uint16_t>(sign | (low + 1)));
            }
        }
        EXPECT_EQ(list<uint16_t>(ops.cast(values(DType::f32, inputs), kind.type)), expected) << name_of(kind.type);
    }
}

TEST(Copy, NarrowsTheLimits) {
    Ops ops(cpu(), 1);
    const Tensor x = values<float>(DType::f32, {kInfinity, -kInfinity, 65519.0F, 65520.0F, -1e30F, 1e-30F, 3.4e38F});
    EXPECT_EQ(list<uint16_t>(ops.cast(x, DType::f16)),
              (std::vector<uint16_t>{0x7c00, 0xfc00, 0x7bff, 0x7c00, 0xfc00, 0x0000, 0x7c00}));
    EXPECT_EQ(list<uint16_t>(ops.cast(x, DType::bf16))[6], 0x7f80);
    for (uint32_t nan : {0x7fc00000U, 0x7f800001U, 0xffffffffU, 0x7fffffffU}) {
        const Tensor n = values<float>(DType::f32, {std::bit_cast<float>(nan)});
        for (DType type : {DType::f16, DType::bf16})
            EXPECT_TRUE(std::isnan(at(ops.cast(ops.cast(n, type), DType::f32), 0))) << nan << name_of(type);
    }
}

TEST(Copy, ConvertsIntegersAndBytes) {
    Ops ops(cpu(), 1);
    const Tensor x = values<float>(DType::f32, {-3.0F, 0.5F, 1.5F, 2.49F, 254.5F, 255.5F, 1e9F, kNan, kInfinity});
    EXPECT_EQ(list<uint8_t>(ops.cast(x, DType::u8)), (std::vector<uint8_t>{0, 0, 2, 2, 254, 255, 255, 0, 255}));
    const Tensor y = values<float>(DType::f32, {-3.7F, 3.7F, 3e9F, -3e9F, kNan, 0.0F});
    EXPECT_EQ(list<int32_t>(ops.cast(y, DType::i32)), (std::vector<int32_t>{-3, 3, INT32_MAX, INT32_MIN, 0, 0}));
    const Tensor z = values<int32_t>(DType::i32, {-5, 7, 300, 16777217});
    EXPECT_EQ(list<uint8_t>(ops.cast(z, DType::u8)), (std::vector<uint8_t>{0, 7, 255, 255}));
    EXPECT_EQ(list<float>(ops.cast(z, DType::f32)), (std::vector<float>{-5, 7, 300, 16777216}));
    EXPECT_EQ(list<uint16_t>(ops.cast(z, DType::f16))[1], 0x4700);
    const Tensor bytes = values<uint8_t>(DType::u8, {0, 1, 128, 255});
    EXPECT_EQ(list<int32_t>(ops.cast(bytes, DType::i32)), (std::vector<int32_t>{0, 1, 128, 255}));
    EXPECT_EQ(list<float>(ops.cast(bytes, DType::f32)), (std::vector<float>{0, 1, 128, 255}));
    EXPECT_EQ(list<uint8_t>(ops.cast(ops.cast(bytes, DType::bf16), DType::u8)), list<uint8_t>(bytes));
}

TEST(Copy, RefusesI8Conversion) {
    Ops ops(cpu(), 1);
    EXPECT_THROW(ops.cast(ops.empty({2}, DType::i8), DType::f32), Error);
}

TEST(Copy, ReadsAndWritesStridedViews) {
    const std::array<Shape, 6> shapes = {Shape{1},          Shape{7},       Shape{3, 5},
                                         Shape{2, 1, 3, 4}, Shape{4, 9, 1}, Shape{70, 600}};
    for (const Shape& shape : shapes)
        for (int threads : {1, 2, 3}) {
            Ops ops(cpu(), threads);
            const Tensor x = random_strided(shape, 1);
            expect_equal(ops.contiguous(x), x);
            const Tensor view = random_strided(shape, 2);
            ops.copy_(view, x);
            expect_equal(view, x);
            const Tensor halves = ops.cast(x, DType::f16);
            const Tensor half_view = ops.empty({shape.numel(), 3}, DType::f16).slice(1, 1, 1);
            ops.copy_(half_view, halves.reshape({shape.numel(), 1}));
            expect_equal(ops.cast(half_view, DType::f32).reshape(shape), ops.cast(halves, DType::f32));
        }
}

TEST(Copy, RepeatsExpandedDimensions) {
    Ops ops(cpu(), 1);
    const Tensor x = random_tensor({3, 1, 1}, 1);
    const Tensor y = ops.contiguous(x.expand(1, 4).expand(2, 5));
    for (int64_t i = 0; i < y.numel(); ++i) ASSERT_EQ(at(y, i), at(x, i / 20));
    EXPECT_EQ(list<float>(ops.cast(ops.cast(x, DType::bf16).expand(2, 2), DType::f32))[1],
              list<float>(ops.cast(ops.cast(x, DType::bf16), DType::f32))[0]);
}

TEST(Copy, LeavesTheRestOfTheDestinationAlone) {
    Ops ops(cpu(), 1);
    const Tensor whole = ops.full({4, 6}, 9);
    ops.copy_(whole.slice(0, 1, 2).slice(1, 2, 3), random_tensor({2, 3}, 1));
    for (int64_t i = 0; i < 24; ++i) {
        const bool inside = i / 6 >= 1 && i / 6 < 3 && i % 6 >= 2 && i % 6 < 5;
        EXPECT_EQ(at(whole, i) == 9.0F, !inside) << i;
    }
}

template <typename T>
void check_permute(const Tensor& x, const std::vector<int>& order) {
    const Tensor y = run_with_threads([&](Ops& ops) { return ops.permute(x, order); });
    for (int64_t i = 0; i < y.numel(); ++i) {
        int64_t flat = i;
        int64_t offset = 0;
        for (int d = y.rank() - 1; d >= 0; --d) {
            ASSERT_EQ(y.dim(d), x.dim(order[static_cast<size_t>(d)]));
            offset += flat % y.dim(d) * x.stride(order[static_cast<size_t>(d)]);
            flat /= y.dim(d);
        }
        ASSERT_EQ(y.data<T>()[i], x.data<T>()[offset]) << i << " of " << to_string(x.shape());
    }
}

TEST(Permute, MovesEveryElementForEveryOrder) {
    const std::array<Shape, 5> shapes = {Shape{2, 3, 4, 5}, Shape{1, 33, 2, 40}, Shape{3, 1, 65, 31},
                                         Shape{1, 70, 90, 7}, Shape{2, 1, 1, 5000}};
    for (const Shape& shape : shapes) {
        std::vector<int> order = {0, 1, 2, 3};
        do {
            check_permute<float>(random_tensor(shape, 1), order);
            check_permute<float>(random_strided(shape, 2), order);
        } while (std::next_permutation(order.begin(), order.end()));
    }
}

TEST(Permute, MovesOtherTypesAndRanks) {
    Ops ops(cpu(), 1);
    const Tensor x = random_tensor({37, 50}, 1, 0, 255);
    check_permute<uint16_t>(ops.cast(x, DType::f16), {1, 0});
    check_permute<uint8_t>(ops.cast(x, DType::u8), {1, 0});
    check_permute<int32_t>(ops.cast(x, DType::i32), {1, 0});
    check_permute<float>(random_tensor({2, 3, 2, 5, 3, 4}, 2), {4, 0, 3, 1, 5, 2});
    check_permute<float>(random_tensor({9}, 2), {0});
    check_permute<float>(random_tensor({6, 1}, 2).expand(1, 8), {1, 0});
    check_permute<float>(random_tensor({200, 300}, 2), {1, 0});
    check_permute<float>(random_tensor({3, 40000}, 2), {1, 0});
}

TEST(Fill, SetsEveryTypeDenseAndStrided) {
    for (int threads : {1, 3}) {
        Ops ops(cpu(), threads);
        EXPECT_EQ(list<float>(ops.full({40000}, 1.5F)), std::vector<float>(40000, 1.5F));
        EXPECT_EQ(list<uint16_t>(ops.full({3, 5}, -2, DType::f16)), std::vector<uint16_t>(15, 0xc000));
        EXPECT_EQ(list<uint16_t>(ops.full({3}, 1, DType::bf16)), std::vector<uint16_t>(3, 0x3f80));
        EXPECT_EQ(list<int32_t>(ops.full({3}, -7, DType::i32)), std::vector<int32_t>(3, -7));
        EXPECT_EQ(list<uint8_t>(ops.full({3}, 300, DType::u8)), std::vector<uint8_t>(3, 255));
        const Tensor whole = ops.full({5, 5}, 0);
        cpu().kernels().fill({cpu(), threads}, {whole.slice(0, 1, 3).slice(1, 4, 1), 2.0F});
        for (int64_t i = 0; i < 25; ++i) EXPECT_EQ(at(whole, i), i % 5 == 4 && i / 5 >= 1 && i / 5 < 4 ? 2.0F : 0.0F);
    }
}

// Parts that lie one behind the other in the result are moved in one step; others are not, and nobody sees which.
TEST(Concat, PutsPartsBehindEachOtherAlongEveryDimension) {
    Ops ops(cpu(), 2);
    const Tensor a = random_tensor({2, 3, 4}, 1);
    for (int dim : {0, 1, 2})
        for (const DType type : {DType::f32, DType::bf16}) {
            const Tensor some = ops.cast(a, type);
            const Tensor strided = random_strided(a.shape(), 2);
            const std::vector<Tensor> parts = {some, some.slice(dim, 1, 1), some.slice(dim, 0, 0),
                                               type == DType::f32 ? strided : some};
            const Tensor joined = ops.cast(ops.concat(parts, dim), DType::f32);
            int64_t at = 0;
            for (const Tensor& part : parts) {
                const int64_t size = part.dim(dim);
                expect_equal(joined.slice(dim, at, size), ops.cast(part, DType::f32));
                at += size;
            }
            EXPECT_EQ(joined.dim(dim), at);
        }
}

}  // namespace
}  // namespace sam3
