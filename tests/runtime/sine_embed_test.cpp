#include "support/operator_goldens.h"

namespace sam3 {
namespace {

using namespace sam3::test;

TEST(SineEmbed, EqualsTheReference) {
    Ops ops(cpu(), 1);
    for (const OperatorGolden& golden : operator_goldens("sine_embed")) {
        const Tensor x = golden_input({12}, 600 + golden.integer(0), -0.5F, 1.5F);
        expect_golden(ops.sine_embed(x, golden.integer(1), golden.real(2), golden.real(3)), golden, 1e-6);
    }
}

TEST(SineEmbed, EqualsItsDefinition) {
    for (const Shape& shape : {Shape{1}, Shape{3, 7}, Shape{2, 1, 300}})
        for (int dim : {2, 10, 128}) {
            const Tensor x = random_strided(shape, 1);
            const Tensor y = run_with_threads([&](Ops& ops) { return ops.sine_embed(x, dim, 10000.0F, 6.2831853F); });
            ASSERT_EQ(y.rank(), shape.rank() + 1);
            for (int64_t i = 0; i < y.numel(); ++i) {
                const double exponent = static_cast<double>(i % dim / 2 * 2) / dim;
                const double angle = 6.2831853 * static_cast<double>(at(x, i / dim)) / std::pow(10000.0, exponent);
                ASSERT_NEAR(static_cast<double>(at(y, i)), i % 2 == 0 ? std::sin(angle) : std::cos(angle), 2e-6);
            }
        }
}

}  // namespace
}  // namespace sam3
