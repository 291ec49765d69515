#pragma once

#include "runtime/cpu/simd/simd.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

// Runs a test once under every instruction set that this machine has:
//     class Softmax : public test::SimdVariants {};
//     TEST_P(Softmax, ...) { ... }
//     SAM3_TEST_SIMD_VARIANTS(Softmax);
namespace sam3::test {

inline std::vector<const simd::Table*> simd_tables() {
    std::vector<const simd::Table*> tables;
    for (const simd::Table* const* t = simd::available_tables(); *t != nullptr; ++t) tables.push_back(*t);
    return tables;
}

inline std::string simd_name(const testing::TestParamInfo<const simd::Table*>& variant) { return variant.param->name; }

class SimdVariants : public testing::TestWithParam<const simd::Table*> {
protected:
    void SetUp() override { simd::use_table(*GetParam()); }
    void TearDown() override { simd::use_table(before_); }

private:
    const simd::Table& before_ = simd::table();
};

#define SAM3_TEST_SIMD_VARIANTS(Suite) \
    INSTANTIATE_TEST_SUITE_P(Variants, Suite, testing::ValuesIn(::sam3::test::simd_tables()), ::sam3::test::simd_name)

}  // namespace sam3::test
