#include "cuda/both_devices.h"

namespace sam3 {
namespace {

using test::compare;
using test::kExact;
using test::kFloatTypes;
using test::Layout;
using test::Side;
using test::tolerance_of;

constexpr Layout kLayouts[] = {Layout::dense, Layout::gaps, Layout::part, Layout::repeated};

class GpuElementwise : public test::OnGpu {};

TEST_F(GpuElementwise, TheDeviceHasEveryOperator) { EXPECT_NO_THROW(require_all_operators(*test::gpu().device)); }

TEST_F(GpuElementwise, UnaryFunctionsEqualTheCpus) {
    struct Case {
        Unary function;
        float low, high;
    };
    const Case cases[] = {{Unary::relu, -2, 2},
                          {Unary::gelu, -6, 6},
                          {Unary::sigmoid, -12, 12},
                          {Unary::tanh, -4, 4},
                          {Unary::silu, -8, 8},
                          {Unary::exp, -8, 4},
                          {Unary::log, 0.01F, 9},
                          {Unary::sqrt, 0, 9},
                          {Unary::sin, -40, 40},
                          {Unary::cos, -40, 40},
                          {Unary::abs, -2, 2},
                          {Unary::neg, -2, 2},
                          {Unary::inverse_sigmoid, -0.2F, 1.2F},
                          {Unary::signed_log2, -9, 9}};
    for (const Case& c : cases)
        for (DType type : kFloatTypes)
            for (Layout layout : kLayouts)
                compare({{{3, 5, 36}, type, layout, c.low, c.high}}, tolerance_of(type),
                        [&](const Side& side) { return side.ops.unary(side[0], c.function); });
}

TEST_F(GpuElementwise, AffineAndClampEqualTheCpus) {
    for (DType type : kFloatTypes)
        for (int64_t channels : {1, 7, 64}) {
            compare({{{2, 33, channels}, type, Layout::gaps, -3, 3}}, tolerance_of(type),
                    [](const Side& side) { return side.ops.affine(side[0], -1.75F, 0.5F); });
            compare({{{2, 33, channels}, type, Layout::dense, -3, 3}}, kExact,
                    [](const Side& side) { return side.ops.clamp(side[0], -0.5F, 1.25F); });
        }
}

TEST_F(GpuElementwise, BinaryFunctionsEqualTheCpus) {
    for (Binary function : {Binary::add, Binary::sub, Binary::mul, Binary::div, Binary::min, Binary::max})
        for (DType a : kFloatTypes)
            for (DType b : kFloatTypes)
                compare({{{4, 9, 20}, a, Layout::part}, {{4, 9, 20}, b, Layout::dense, 0.5F, 2.0F}},
                        std::max(tolerance_of(a), tolerance_of(b)),
                        [&](const Side& side) { return side.ops.binary(side[0], side[1], function); });
}

TEST_F(GpuElementwise, BroadcastingEqualsTheCpus) {
    struct Case {
        Shape a, b;
    };
    const Case cases[] = {{{1, 72, 72, 256}, {256}},
                          {{3, 40, 64}, {40, 64}},
                          {{3, 40, 64}, {3, 1, 64}},
                          {{3, 40, 64}, {3, 40, 1}},
                          {{3, 40, 64}, {1}},
                          {{5, 1, 7}, {1, 6, 7}},
                          {{1, 1, 12}, {4, 3, 12}},
                          {{2, 1, 3, 1, 8}, {1, 5, 1, 4, 8}},
                          {{17}, {17}},
                          {{2, 3, 4, 5, 6, 1}, {5, 6, 7}},
                          {{9, 1}, {1, 13}},
                          {{1}, {1}}};
    for (const Case& c : cases)
        for (DType type : kFloatTypes)
            for (Layout layout : {Layout::dense, Layout::gaps})
                compare({{c.a, type, layout}, {c.b, DType::f32, layout}}, test::kF32Tolerance, [](const Side& side) {
                    return side.ops.sub(side[0], side[1]);  // a wider operand makes the result f32
                });
}

TEST_F(GpuElementwise, AddInPlaceEqualsTheCpus) {
    for (DType a : kFloatTypes)
        for (DType b : kFloatTypes)
            for (Layout layout : {Layout::dense, Layout::gaps, Layout::part})
                compare({{{2, 21, 64}, a, layout}, {{64}, b}}, tolerance_of(a), [](const Side& side) {
                    side.ops.add_(side[0], side[1]);
                    return side[0];
                });
}

TEST_F(GpuElementwise, ANanGoesThrough) {
    const auto broken = [](const Side& side, Unary function) {
        const Tensor nan = side.ops.unary(side[0], Unary::log);  // of negative numbers
        return side.ops.unary(nan, function);
    };
    for (Unary function : {Unary::relu, Unary::neg, Unary::abs, Unary::sigmoid})
        compare({{{3, 8}, DType::f32, Layout::dense, -2, -1}}, kExact,
                [&](const Side& side) { return broken(side, function); });
    for (Binary function : {Binary::min, Binary::max})
        compare({{{3, 8}, DType::f32, Layout::dense, -2, -1}, {{3, 8}}}, kExact, [&](const Side& side) {
            const Tensor nan = broken(side, Unary::neg);
            return side.ops.concat({side.ops.binary(nan, side[1], function), side.ops.binary(side[1], nan, function)},
                                   0);
        });
}

TEST_F(GpuElementwise, CopiesConvertAsTheCpuDoes) {
    const DType types[] = {DType::f32, DType::f16, DType::bf16, DType::i32, DType::u8};
    for (DType from : types)
        for (DType to : types)
            for (Layout layout : kLayouts)
                for (int64_t channels : {5, 32})
                    compare({{{3, 4, channels}, DType::f32, layout, -40, 300}}, kExact,
                            [&](const Side& side) { return side.ops.cast(side.ops.cast(side[0], from), to); });
}

TEST_F(GpuElementwise, CopiesTakeAnyStrides) {
    for (DType type : {DType::f32, DType::bf16, DType::u8})
        for (Layout layout : kLayouts)
            for (const Shape& shape : {Shape{1}, Shape{7}, Shape{2, 3, 5, 32}, Shape{6, 1, 8}, Shape{4, 9, 6}})
                compare({{shape, type, layout, 0, 9}}, kExact, [](const Side& side) {
                    const Tensor& x = side[0];
                    Shape larger = x.shape();
                    for (int i = 0; i < larger.rank(); ++i) larger[i] += 8;
                    const Tensor target = side.ops.full(larger, 3.0F, x.dtype());
                    Tensor view = target;
                    for (int i = 0; i < x.rank(); ++i) view = view.slice(i, 4, x.dim(i));
                    side.ops.copy_(view, x);
                    return target;
                });
}

TEST_F(GpuElementwise, ConcatAndPadEqualTheCpus) {
    for (DType type : kFloatTypes) {
        for (int dim : {0, 1, 2})
            compare({{{2, 3, 8}, type, Layout::part}, {{2, 3, 8}, DType::f32, Layout::gaps}}, kExact,
                    [&](const Side& side) {
                        return side.ops.concat({side[0], side[1], side[0]}, dim);
                    });
        // Many parts of one type: more than a launch takes, aligned and not, some of them empty.
        for (int64_t step : {8, 3})
            compare({{{600, step}, type}}, kExact, [&](const Side& side) {
                std::vector<Tensor> parts;
                for (int64_t i = 0; i < 300; ++i) parts.push_back(side[0].slice(0, 2 * i, i % 3));
                return side.ops.concat(parts, 0);
            });
        compare({{{1, 5, 7, 12}, type, Layout::gaps}}, kExact,
                [](const Side& side) { return side.ops.pad_bottom_right(side[0], 8, 9); });
    }
}

TEST_F(GpuElementwise, PermutationsEqualTheCpus) {
    struct Case {
        Shape shape;
        std::vector<int> order;
    };
    const Case cases[] = {{{33, 70}, {1, 0}},
                          {{2, 5, 4, 64}, {0, 2, 1, 3}},
                          {{2, 50, 6, 8}, {0, 3, 1, 2}},
                          {{2, 8, 50, 6}, {0, 2, 3, 1}},
                          {{3, 4, 5}, {2, 1, 0}},
                          {{1, 3, 14, 3, 14, 20}, {0, 1, 3, 2, 4, 5}},
                          {{2, 3, 4, 5, 6, 7}, {5, 3, 1, 4, 2, 0}},
                          {{1, 1, 9}, {2, 0, 1}},
                          {{4, 3, 1, 130}, {3, 2, 1, 0}},
                          {{6, 40, 40}, {1, 2, 0}}};
    for (const Case& c : cases)
        for (DType type : {DType::f32, DType::bf16, DType::u8})
            for (Layout layout : kLayouts)
                compare({{c.shape, type, layout, 0, 99}}, kExact,
                        [&](const Side& side) { return side.ops.permute(side[0], c.order); });
}

TEST_F(GpuElementwise, FillsEveryTypeAndStride) {
    for (DType type : {DType::f32, DType::f16, DType::bf16, DType::i32, DType::u8})
        for (float value : {0.0F, 2.5F, 3.5F, 200.75F, -7.0F})
            for (int64_t start : {0, 1, 4}) {
                compare({}, kExact, [&](const Side& side) {
                    const Tensor all = side.ops.full({3, 5, 20}, 1.0F, type);
                    const Tensor view = all.slice(2, start, 8).slice(1, 1, 3);
                    side.ops.device().kernels().fill(ExecContext{side.ops.device()}, FillArgs{view, value});
                    return all;
                });
            }
}

}  // namespace
}  // namespace sam3
