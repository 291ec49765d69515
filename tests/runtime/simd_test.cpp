#include "support/simd_variants.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace sam3 {
namespace {

using Function = void (*)(float*, const float*, int64_t);
using Exact = std::function<double(double)>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

double phi(double x) { return 0.5 * std::erfc(-x * M_SQRT1_2); }
double exact_sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double exact_gelu_tanh(double x) {
    // 0.5 x (1 + tanh(t)) = x sigmoid(2 t)
    return x * exact_sigmoid(2.0 * std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x));
}

// Every exponent and both signs, a few mantissas each, and a fine grid where the functions bend.
std::vector<float> whole_range() {
    std::vector<float> values = {0.0F, -0.0F};
    for (int exponent = -149; exponent < 128; ++exponent)
        for (double mantissa : {1.0, 1.17, 1.5, 1.73, 1.9999999})
            for (double sign : {-1.0, 1.0}) values.push_back(static_cast<float>(sign * std::ldexp(mantissa, exponent)));
    for (int i = -120000; i <= 120000; ++i) values.push_back(static_cast<float>(i) * 0.00091F);
    return values;
}

class Simd : public test::SimdVariants {
protected:
    // |error| <= relative * |expected| + absolute; results below the smallest normal number may be zero.
    void check(Function function, const Exact& exact, double relative, double absolute_per_input = 0.0) {
        const std::vector<float> in = whole_range();
        std::vector<float> out(in.size());
        function(out.data(), in.data(), static_cast<int64_t>(in.size()));
        for (size_t i = 0; i < in.size(); ++i) {
            const double x = static_cast<double>(in[i]);
            const double expected = exact(x);
            if (std::abs(expected) > static_cast<double>(std::numeric_limits<float>::max())) {
                ASSERT_EQ(out[i], expected > 0 ? kInfinity : -kInfinity) << "x = " << x;
                continue;
            }
            const double tolerance = relative * std::abs(expected) + absolute_per_input * std::abs(x) +
                                     static_cast<double>(std::numeric_limits<float>::min()) * (1.0 + std::abs(x));
            ASSERT_NEAR(static_cast<double>(out[i]), expected, tolerance) << "x = " << x;
        }
    }
    static float one(Function function, float x) {
        float out = 0;
        function(&out, &x, 1);
        return out;
    }
};

TEST_P(Simd, ExpIsCloseToTheExactValueOverTheWholeRange) {
    check(
        GetParam()->exp, [](double x) { return std::exp(x); }, 2.4e-7);
}

TEST_P(Simd, ExpKeepsDenormalResults) {
    for (float x : {-88.0F, -90.0F, -95.5F, -100.0F, -103.0F})
        EXPECT_NEAR(static_cast<double>(one(GetParam()->exp, x)), std::exp(static_cast<double>(x)), 1.5e-45) << x;
    EXPECT_EQ(one(GetParam()->exp, -104.5F), 0.0F);
}

TEST_P(Simd, TanhIsCloseToTheExactValueOverTheWholeRange) {
    check(
        GetParam()->tanh, [](double x) { return std::tanh(x); }, 3e-7);
}

TEST_P(Simd, SigmoidIsCloseToTheExactValueOverTheWholeRange) { check(GetParam()->sigmoid, exact_sigmoid, 4e-7); }

TEST_P(Simd, SiluIsCloseToTheExactValueOverTheWholeRange) {
    check(
        GetParam()->silu, [](double x) { return x * exact_sigmoid(x); }, 5e-7);
}

TEST_P(Simd, GeluIsCloseToTheExactValueInTheTailToo) {
    // The rounding of x * x costs up to x * x * 2^-25 in the far tail, where the value itself is below 1e-6.
    check(
        GetParam()->gelu, [](double x) { return x * phi(x); }, 5e-7, 2e-8);
    for (float x : {-1.0F, -2.0F, -3.0F, -4.0F, -5.0F, -8.0F}) {
        const double expected = static_cast<double>(x) * phi(static_cast<double>(x));
        EXPECT_NEAR(static_cast<double>(one(GetParam()->gelu, x)) / expected, 1.0, 3e-6) << x;
    }
}

TEST_P(Simd, GeluTanhIsCloseToTheExactValue) { check(GetParam()->gelu_tanh, exact_gelu_tanh, 1e-6, 5e-8); }

TEST_P(Simd, ReluKeepsPositiveValuesOnly) {
    check(
        GetParam()->relu, [](double x) { return x > 0 ? x : 0.0; }, 0.0);
}

TEST_P(Simd, InfinitiesGiveTheLimits) {
    const simd::Table& t = *GetParam();
    EXPECT_EQ(one(t.exp, kInfinity), kInfinity);
    EXPECT_EQ(one(t.exp, -kInfinity), 0.0F);
    EXPECT_EQ(one(t.tanh, kInfinity), 1.0F);
    EXPECT_EQ(one(t.tanh, -kInfinity), -1.0F);
    EXPECT_EQ(one(t.sigmoid, kInfinity), 1.0F);
    EXPECT_EQ(one(t.sigmoid, -kInfinity), 0.0F);
    EXPECT_EQ(one(t.silu, kInfinity), kInfinity);
    EXPECT_EQ(one(t.gelu, kInfinity), kInfinity);
    EXPECT_EQ(one(t.gelu_tanh, kInfinity), kInfinity);
    EXPECT_EQ(one(t.relu, kInfinity), kInfinity);
}

TEST_P(Simd, NanStaysNan) {
    const simd::Table& t = *GetParam();
    for (Function function : {t.exp, t.tanh, t.sigmoid, t.silu, t.gelu, t.gelu_tanh, t.relu})
        EXPECT_TRUE(std::isnan(one(function, std::numeric_limits<float>::quiet_NaN())));
}

TEST_P(Simd, ElementwiseFunctionsTouchExactlyTheirElementsAndWorkInPlace) {
    const simd::Table& t = *GetParam();
    for (int64_t n = 0; n < 70; ++n) {
        std::vector<float> values(static_cast<size_t>(n) + 8, 7.0F);
        for (int64_t i = 0; i < n; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i) * 0.1F - 3.0F;
        std::vector<float> expected(values.size());
        for (size_t i = 0; i < values.size(); ++i) expected[i] = one(t.gelu, values[i]);
        t.gelu(values.data(), values.data(), n);
        for (size_t i = 0; i < values.size(); ++i)
            ASSERT_EQ(values[i], i < static_cast<size_t>(n) ? expected[i] : 7.0F) << i << " of " << n;
    }
}

SAM3_TEST_SIMD_VARIANTS(Simd);

TEST(SimdTable, BaselineIsAlwaysAvailableAndTheBestIsFirst) {
    const std::vector<const simd::Table*> tables = test::simd_tables();
    ASSERT_FALSE(tables.empty());
    EXPECT_STREQ(tables.back()->name, "baseline");
    for (size_t i = 1; i < tables.size(); ++i) EXPECT_GE(tables[i - 1]->lanes, tables[i]->lanes);
}

TEST(SimdTable, CanBeReplaced) {
    const simd::Table& before = simd::table();
    simd::use_table(*test::simd_tables().back());
    EXPECT_STREQ(simd::table().name, "baseline");
    simd::use_table(before);
    EXPECT_EQ(&simd::table(), &before);
}

}  // namespace
}  // namespace sam3
