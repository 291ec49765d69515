#include "support/operator_goldens.h"
#include "util/error.h"

#include <array>
#include <functional>

namespace sam3 {
namespace {

using namespace sam3::test;

const float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor values(std::initializer_list<float> list) {
    Tensor tensor = Ops(cpu(), 1).empty({static_cast<int64_t>(list.size())});
    std::copy(list.begin(), list.end(), tensor.data<float>());
    return tensor;
}

double exact(Unary function, double x) {
    switch (function) {
        case Unary::relu: return std::max(x, 0.0);
        case Unary::gelu: return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
        case Unary::sigmoid: return 1 / (1 + std::exp(-x));
        case Unary::tanh: return std::tanh(x);
        case Unary::silu: return x / (1 + std::exp(-x));
        case Unary::exp: return std::exp(x);
        case Unary::log: return std::log(x);
        case Unary::sqrt: return std::sqrt(x);
        case Unary::sin: return std::sin(x);
        case Unary::cos: return std::cos(x);
        case Unary::abs: return std::abs(x);
        case Unary::neg: return -x;
        case Unary::inverse_sigmoid: {
            const double inside = std::clamp(x, 0.0, 1.0);
            return std::log(std::max(inside, 1e-3) / std::max(1 - inside, 1e-3));
        }
        case Unary::signed_log2: return std::copysign(std::log2(std::abs(x) + 1), x);
    }
    return 0;
}

constexpr std::array kFunctions = {Unary::relu,
                                   Unary::gelu,
                                   Unary::sigmoid,
                                   Unary::tanh,
                                   Unary::silu,
                                   Unary::exp,
                                   Unary::log,
                                   Unary::sqrt,
                                   Unary::sin,
                                   Unary::cos,
                                   Unary::abs,
                                   Unary::neg,
                                   Unary::inverse_sigmoid,
                                   Unary::signed_log2};

bool needs_positive(Unary function) { return function == Unary::log || function == Unary::sqrt; }

TEST(Unary, EqualsPlainMathematicsOnDenseAndStridedInputs) {
    const std::array<Shape, 5> shapes = {Shape{1}, Shape{3, 1}, Shape{2, 3, 17}, Shape{5, 1, 7, 1}, Shape{100, 513}};
    for (Unary function : kFunctions)
        for (const Shape& shape : shapes)
            for (bool strided : {false, true}) {
                const float low = needs_positive(function) ? 0.01F : -6.0F;
                const Tensor x = strided ? random_strided(shape, 1, low, 6.0F) : random_tensor(shape, 1, low, 6.0F);
                const Tensor y = run_with_threads([&](Ops& ops) { return ops.unary(x, function); });
                for (int64_t i = 0; i < y.numel(); ++i) {
                    const double e = exact(function, static_cast<double>(at(x, i)));
                    ASSERT_NEAR(static_cast<double>(at(y, i)), e, 1e-6 * std::max(1.0, std::abs(e)))
                        << static_cast<int>(function) << " of " << at(x, i) << " in " << to_string(shape);
                }
            }
}

TEST(Unary, EqualsTheReference) {
    Ops ops(cpu(), 1);
    const auto goldens = operator_goldens("unary");
    ASSERT_EQ(goldens.size(), kFunctions.size());
    for (const OperatorGolden& golden : goldens) {
        const Tensor x = golden_input({300}, golden.integer(1), golden.real(2), golden.real(3));
        SCOPED_TRACE(golden.integer(0));
        expect_golden(ops.unary(x, kFunctions.at(static_cast<size_t>(golden.integer(0)))), golden, 3e-7);
    }
}

TEST(Unary, KeepsNan) {
    Ops ops(cpu(), 1);
    const Tensor x = values({kNan, 0.5F, kNan});
    for (Unary function : kFunctions) {
        const Tensor y = ops.unary(x, function);
        EXPECT_TRUE(std::isnan(at(y, 0)) && !std::isnan(at(y, 1)) && std::isnan(at(y, 2)))
            << static_cast<int>(function);
    }
    EXPECT_TRUE(std::isnan(at(ops.clamp(x, -1, 1), 0)));
    EXPECT_TRUE(std::isnan(at(ops.affine(x, 2, 1), 0)));
}

TEST(Unary, ReachesTheLimitsAtInfinity) {
    Ops ops(cpu(), 1);
    const Tensor x = values({-kInfinity, kInfinity});
    const auto both = [&](Unary function) {
        const Tensor y = ops.unary(x, function);
        return std::pair(at(y, 0), at(y, 1));
    };
    EXPECT_EQ(both(Unary::relu), std::pair(0.0F, kInfinity));
    EXPECT_EQ(both(Unary::sigmoid), std::pair(0.0F, 1.0F));
    EXPECT_EQ(both(Unary::tanh), std::pair(-1.0F, 1.0F));
    EXPECT_EQ(both(Unary::exp), std::pair(0.0F, kInfinity));
    EXPECT_EQ(both(Unary::signed_log2), std::pair(-kInfinity, kInfinity));
}

TEST(Unary, ScalesShiftsAppliesThenClamps) {
    const Tensor x = random_strided({9, 50}, 3, -2, 2);
    Ops ops(cpu(), 2);
    const Tensor out = ops.empty(x.shape());
    cpu().kernels().unary({cpu(), 2}, {x, Unary::tanh, true, 1.5F, -0.25F, -0.5F, 0.75F, out});
    for (int64_t i = 0; i < x.numel(); ++i)
        ASSERT_NEAR(at(out, i), std::clamp(std::tanh(1.5F * at(x, i) - 0.25F), -0.5F, 0.75F), 1e-6F);
}

TEST(Unary, AffineAndClampWork) {
    const Tensor x = random_strided({4, 3, 7}, 4, -2, 2);
    Ops ops(cpu(), 1);
    const Tensor scaled = ops.affine(x, 3.0F, -1.0F);
    const Tensor limited = ops.clamp(x, -0.5F, kInfinity);
    for (int64_t i = 0; i < x.numel(); ++i) {
        ASSERT_NEAR(at(scaled, i), 3.0F * at(x, i) - 1.0F, 1e-6F);
        ASSERT_EQ(at(limited, i), std::max(at(x, i), -0.5F));
    }
}

TEST(Unary, WorksInPlace) {
    Tensor x = random_tensor({1000}, 5);
    const Tensor expected = Ops(cpu(), 1).unary(x, Unary::gelu);
    cpu().kernels().unary({cpu(), 1}, {x, Unary::gelu, true, 1, 0, -kInfinity, kInfinity, x});
    expect_equal(x, expected);
}

TEST(Unary, RefusesOtherTypes) {
    Ops ops(cpu(), 1);
    const Tensor x = ops.full({4}, 1, DType::i32);
    EXPECT_THROW(ops.unary(x, Unary::exp), Error);
    EXPECT_THROW(ops.add(x, ops.full({4}, 1)), Error);
}

float combine(Binary function, float a, float b) {
    switch (function) {
        case Binary::add: return a + b;
        case Binary::sub: return a - b;
        case Binary::mul: return a * b;
        case Binary::div: return a / b;
        case Binary::min: return std::min(a, b);
        case Binary::max: return std::max(a, b);
    }
    return 0;
}

constexpr std::array kBinaries = {Binary::add, Binary::sub, Binary::mul, Binary::div, Binary::min, Binary::max};

// Element of `tensor`, broadcast to `shape`, at the row-major index `flat` of `shape`.
float broadcast_at(const Tensor& tensor, const Shape& shape, int64_t flat) {
    int64_t offset = 0;
    for (int i = shape.rank() - 1; i >= 0; --i) {
        const int own = i - (shape.rank() - tensor.rank());
        if (own >= 0 && tensor.dim(own) != 1) offset += flat % shape[i] * tensor.stride(own);
        flat /= shape[i];
    }
    return tensor.data<float>()[offset];
}

void check_binary(const Tensor& a, const Tensor& b, Binary function) {
    const Tensor out = run_with_threads([&](Ops& ops) { return ops.binary(a, b, function); });
    for (int64_t i = 0; i < out.numel(); ++i)
        ASSERT_EQ(at(out, i), combine(function, broadcast_at(a, out.shape(), i), broadcast_at(b, out.shape(), i)))
            << static_cast<int>(function) << " at " << i << ": " << to_string(a.shape()) << to_string(b.shape());
}

TEST(Binary, BroadcastsEveryPairOfShapes) {
    const std::array<std::pair<Shape, Shape>, 15> pairs = {{{{7}, {7}},
                                                            {{1}, {1}},
                                                            {{3, 5}, {5}},
                                                            {{5}, {3, 5}},
                                                            {{3, 5}, {3, 1}},
                                                            {{3, 1}, {3, 5}},
                                                            {{3, 1}, {1, 5}},
                                                            {{2, 3, 4, 5}, {2, 1, 1, 5}},
                                                            {{2, 3, 4, 5}, {1, 3, 4, 1}},
                                                            {{2, 1, 4, 1}, {3, 1, 5}},
                                                            {{2, 3, 4}, {1}},
                                                            {{1, 2, 3, 2, 3, 2}, {2, 1, 2, 1, 2}},
                                                            {{150, 257}, {257}},
                                                            {{150, 257}, {150, 1}},
                                                            {{3, 40000}, {3, 40000}}}};
    for (const auto& [a, b] : pairs)
        for (Binary function : kBinaries) {
            check_binary(random_tensor(a, 1, 0.5F, 2), random_tensor(b, 2, 0.5F, 2), function);
            check_binary(random_strided(a, 1, 0.5F, 2), random_strided(b, 2, 0.5F, 2), function);
        }
}

TEST(Binary, ReadsASliceOfTheLastDimension) {
    const Tensor boxes = random_tensor({30, 4}, 3);
    check_binary(boxes.slice(1, 2, 1), boxes.slice(1, 0, 1), Binary::sub);
    check_binary(boxes, boxes.slice(1, 3, 1), Binary::mul);
}

TEST(Binary, AddsInPlaceAndIntoASlice) {
    for (int threads : {1, 3}) {
        Ops ops(cpu(), threads);
        const Tensor whole = random_tensor({200, 3, 90}, 7);
        const Tensor before = Ops(cpu(), 1).affine(whole, 1, 0);
        const Tensor part = whole.slice(2, 10, 70);
        const Tensor b = random_tensor({3, 70}, 8);
        ops.add_(part, b);
        for (int64_t i = 0; i < whole.numel(); ++i) {
            const int64_t c = i % 90;
            const bool inside = c >= 10 && c < 80;
            const float added = inside ? at(b, i / 90 % 3 * 70 + c - 10) : 0.0F;
            ASSERT_EQ(at(whole, i), inside ? at(before, i) + added : at(before, i));
        }
        ops.add_(b, b);
        const Tensor again = random_tensor({3, 70}, 8);
        for (int64_t i = 0; i < b.numel(); ++i) ASSERT_EQ(at(b, i), 2 * at(again, i));
    }
}

TEST(Binary, MinAndMaxKeepNanOnEitherSide) {
    Ops ops(cpu(), 1);
    const Tensor a = values({kNan, 1.0F, kNan, 1.0F});
    const Tensor b = values({1.0F, kNan, kNan, 2.0F});
    for (Binary function : {Binary::min, Binary::max}) {
        const Tensor y = ops.binary(a, b, function);
        for (int64_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(at(y, i)));
        EXPECT_FALSE(std::isnan(at(y, 3)));
    }
}

}  // namespace
}  // namespace sam3
