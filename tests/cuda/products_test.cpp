#include "cuda/both_devices.h"

namespace sam3 {
namespace {

using test::compare;
using test::kBf16Tolerance;
using test::kF32Tolerance;
using test::Layout;
using test::random_tensor;
using test::rounded;
using test::Side;

constexpr Precision kPrecisions[] = {Precision::f32, Precision::bf16};

class GpuProducts : public test::OnGpu {};

double tolerance_of(Precision precision) { return precision == Precision::f32 ? kF32Tolerance : kBf16Tolerance; }

DType type_of(Precision precision) { return precision == Precision::f32 ? DType::f32 : DType::bf16; }

// Weights that keep results near the inputs' size, with the values that the GPU's type can hold.
Tensor weights_of(const Shape& shape, Precision precision, unsigned seed) {
    const float range = std::sqrt(3.0F * static_cast<float>(shape[0]) / static_cast<float>(shape.numel()));
    return rounded(random_tensor(shape, seed, -range, range), type_of(precision));
}

struct Linear {
    int64_t rows, in, out;
    Precision precision;
    bool has_bias = true;
    Activation activation = Activation::none;

    std::shared_ptr<const PackedLinear> pack(const Side& side) const {
        const LinearSource source{{weights_of({out, in}, precision, 91)},
                                  {has_bias ? rounded(random_tensor({out}, 92), type_of(precision)) : Tensor()}};
        return side.ops.device().pack_linear(source, side.precision(precision));
    }
};

TEST_F(GpuProducts, LinearEqualsTheCpusOnManySizes) {
    struct Sizes {
        int64_t rows, in, out;
    };
    const Sizes sizes[] = {{1, 2, 1},     {5, 2, 256},     {3, 1, 7},        {201, 256, 256},  {33, 13, 29},
                           {7, 130, 65},  {300, 1024, 72}, {64, 1024, 4736}, {1, 256, 1},      {1, 1024, 1024},
                           {577, 96, 12}, {5184, 64, 192}, {32, 1024, 3072}, {32, 4096, 1024}, {31, 1056, 1000},
                           {200, 512, 4}, {65, 32, 66}};
    for (const Sizes& s : sizes)
        for (Precision precision : kPrecisions)
            for (bool has_bias : {false, true}) {
                const Linear layer{s.rows, s.in, s.out, precision, has_bias};
                for (DType type : {DType::f32, type_of(precision)})
                    compare({{{s.rows, s.in}, type}}, tolerance_of(precision),
                            [&](const Side& side) { return side.ops.linear(side[0], *layer.pack(side)); });
            }
}

// Large enough for the kernel that Hopper has for such products; sizes that fill its blocks, and sizes that do not.
TEST_F(GpuProducts, LinearOfManyRows) {
    struct Sizes {
        int64_t rows, in, out;
    };
    for (const Sizes& s : {Sizes{5184, 256, 1024}, Sizes{1120, 1024, 512}, Sizes{2083, 200, 776}, Sizes{1030, 72, 264}})
        for (Activation activation : {Activation::none, Activation::gelu_tanh}) {
            const Linear layer{s.rows, s.in, s.out, Precision::bf16, true, activation};
            const test::Input x{{s.rows, s.in}, DType::bf16};
            compare({x}, tolerance_of(Precision::bf16),
                    [&](const Side& side) { return side.ops.linear(side[0], *layer.pack(side), activation); });
            for (DType residual : test::kFloatTypes)
                for (Layout layout : {Layout::dense, Layout::part})
                    compare({x, {{s.rows, s.out}, residual, layout, -2, 2}},
                            std::max(tolerance_of(Precision::bf16), test::tolerance_of(residual)),
                            [&](const Side& side) {
                                return side.ops.linear(side[0], *layer.pack(side), activation, side[1]);
                            });
        }
}

// Sums that go on are f16, which rounds to 11 bits: a tile of Hopper's kernel for each of its blocks, several, and
// sizes that it does not take.
TEST_F(GpuProducts, LinearAddsToSumsInF16) {
    struct Sizes {
        int64_t rows, in, out;
    };
    for (const Sizes& s : {Sizes{5184, 256, 1024}, Sizes{12000, 128, 1024}, Sizes{161, 72, 48}, Sizes{2083, 200, 776},
                           Sizes{70, 30, 13}})
        for (Layout layout : {Layout::dense, Layout::part})
            compare({{{s.rows, s.in}, DType::bf16}, {{s.rows, s.out}, DType::f16, layout, -2, 2}}, 1.0 / 1024,
                    [&](const Side& side) {
                        const Linear layer{s.rows, s.in, s.out, Precision::bf16};
                        return side.ops.linear(side[0], *layer.pack(side), Activation::none, side[1]);
                    });
    // What is too large for f16 stays the largest that there is.
    compare({{{200, 64}, DType::bf16, Layout::dense, -99, 99}, {{200, 64}, DType::f16, Layout::dense, 65400, 65500}},
            1.0 / 1024, [&](const Side& side) {
                const Linear layer{200, 64, 64, Precision::bf16};
                const Tensor sum = side.ops.linear(side[0], *layer.pack(side), Activation::none, side[1]);
                return side.is_gpu ? sum : side.ops.clamp(sum, 0.0F, 65504.0F);
            });
}

TEST_F(GpuProducts, LinearRotatesItsFirstHeads) {
    struct Case {
        Shape x;  // without channels
        int64_t in, head_size;
        int heads, window;
        int64_t table;
    };
    const Case cases[] = {
        {{1, 72, 72}, 128, 64, 8, 24, 576},  // as an image encoder's, with windows and without
        {{2, 48, 24}, 72, 64, 2, 8, 64},
        {{2, 24, 24}, 64, 64, 4, 12, 144},  // positions that Hopper's kernel does
                                            // not take
        {{1, 1296}, 256, 64, 8, 0, 1296},
        {{3, 400}, 64, 64, 4, 0, 200},
        {{2, 33}, 64, 64, 2, 0, 33},
        {{2, 128}, 64, 32, 4, 0, 128},
    };
    for (const Case& c : cases)
        for (Precision precision : kPrecisions) {
            Shape shape = c.x;
            shape.push_back(c.in);
            compare({{shape, type_of(precision)}, {{c.table, c.head_size / 2, 2}}}, tolerance_of(precision),
                    [&](const Side& side) {
                        const Linear layer{0, c.in, c.head_size * (c.heads + 2), precision};
                        return side.ops.linear_rotated(side[0], *layer.pack(side), side[1], c.heads, c.window);
                    });
        }
}

// The nearest number with four binary digits, of which the last is worth at least 2^-9: e4m3.
float nearest_e4m3(float x) {
    const int exponent = std::max(x == 0 ? -6 : std::ilogb(x), -6);
    return std::clamp(std::ldexp(std::nearbyint(std::ldexp(x, 3 - exponent)), exponent - 3), -448.0F, 448.0F);
}

// What is left of rows in codes, the largest magnitude of a row being the largest code.
Tensor coded(const Tensor& x) {
    Tensor out = Tensor::host(x.shape());
    const int64_t columns = x.dim(-1);
    for (int64_t row = 0; row < x.numel() / columns; ++row) {
        float most = 0;
        for (int64_t c = 0; c < columns; ++c) most = std::max(most, std::abs(test::at(x, row * columns + c)));
        for (int64_t c = 0; c < columns; ++c)
            out.data<float>()[row * columns + c] =
                most == 0 ? 0.0F : nearest_e4m3(test::at(x, row * columns + c) * (448.0F / most)) * (most / 448.0F);
    }
    return out;
}

TEST_F(GpuProducts, LinearInFp8EqualsTheCpusOfTheSameCodes) {
    if (!test::gpu().device->has_precision(Precision::fp8)) GTEST_SKIP() << "this GPU has no fp8";
    struct Sizes {
        int64_t rows, in, out;
    };
    for (const Sizes& s :
         {Sizes{1296, 1024, 512}, Sizes{161, 144, 48}, Sizes{320, 4736, 64}, Sizes{12000, 128, 1024}}) {
        const Tensor weights = weights_of({s.out, s.in}, Precision::f32, 93);
        const Tensor bias = random_tensor({s.out}, 94);
        const auto layer = [&](const Side& side) {
            return side.ops.device().pack_linear({{side.is_gpu ? weights : coded(weights)}, {bias}},
                                                 side.precision(Precision::fp8));
        };
        const auto input = [&](const Side& side) { return side.is_gpu ? side[0] : coded(side[0]); };
        const test::Input x{{s.rows, s.in}, DType::bf16, Layout::part};
        for (Activation activation : {Activation::none, Activation::gelu_tanh, Activation::relu})
            compare({x}, kBf16Tolerance,
                    [&](const Side& side) { return side.ops.linear(input(side), *layer(side), activation); });
        for (DType residual : {DType::f16, DType::bf16, DType::f32})
            compare({x, {{s.rows, s.out}, residual, Layout::part, -2, 2}}, kBf16Tolerance, [&](const Side& side) {
                return side.ops.linear(input(side), *layer(side), Activation::none, side[1]);
            });
    }
    const Tensor weights = weights_of({384, 256}, Precision::f32, 95);
    compare({{{2, 48, 24, 256}, DType::bf16}, {{64, 32, 2}}}, kBf16Tolerance, [&](const Side& side) {
        const auto layer = side.ops.device().pack_linear({{side.is_gpu ? weights : coded(weights)}, {}},
                                                         side.precision(Precision::fp8));
        return side.ops.linear_rotated(side.is_gpu ? side[0] : coded(side[0]), *layer, side[1], 4, 8);
    });
}

TEST_F(GpuProducts, LinearActivatesAndAddsResiduals) {
    for (Activation activation : {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh,
                                  Activation::sigmoid, Activation::silu})
        for (Precision precision : kPrecisions)
            for (int64_t out : {96, 13}) {
                const int64_t in = 64;
                const Linear layer{70, in, out, precision, true, activation};
                const test::Input x{{2, 35, in}, type_of(precision), Layout::dense, -2, 2};
                compare({x}, tolerance_of(precision),
                        [&](const Side& side) { return side.ops.linear(side[0], *layer.pack(side), activation); });
                for (DType residual : test::kFloatTypes)  // decides the type of the result
                    for (Layout layout : {Layout::dense, Layout::part, Layout::repeated})
                        compare({x, {{2, 35, out}, residual, layout, -2, 2}},
                                std::max(tolerance_of(precision), test::tolerance_of(residual)), [&](const Side& side) {
                                    return side.ops.linear(side[0], *layer.pack(side), activation, side[1]);
                                });
            }
}

// f32 layers of a network that runs in bf16: products may be rounded to TF32's 10 bits.
TEST_F(GpuProducts, LinearOfF32EqualsTheCpusWhereRoundingIsAllowed) {
    struct Sizes {
        int64_t rows, in, out;
    };
    for (const Sizes& s : {Sizes{200, 256, 256}, Sizes{200, 256, 4}, Sizes{7, 48, 33}, Sizes{1, 2048, 256}})
        compare({{{s.rows, s.in}}, {{s.rows, s.out}}}, kBf16Tolerance, [&](const Side& side) {
            side.ops.set_precision(side.precision(Precision::bf16));
            return side.ops.linear(side[0], *Linear{s.rows, s.in, s.out, Precision::f32}.pack(side), Activation::relu,
                                   side[1]);
        });
}

TEST_F(GpuProducts, LinearTakesStridedRows) {
    for (Precision precision : kPrecisions)
        for (Layout layout : {Layout::gaps, Layout::part, Layout::repeated})
            for (int64_t in : {64, 21}) {
                const Linear layer{0, in, 40, precision};
                compare({{{3, 17, in}, type_of(precision), layout}}, tolerance_of(precision),
                        [&](const Side& side) { return side.ops.linear(side[0], *layer.pack(side)); });
            }
}

TEST_F(GpuProducts, StackedWeightsAreOneLayer) {
    for (Precision precision : kPrecisions)
        compare({{{19, 32}, type_of(precision)}}, tolerance_of(precision), [&](const Side& side) {
            const LinearSource source{{weights_of({24, 32}, precision, 1), weights_of({8, 32}, precision, 2)},
                                      {Tensor(), rounded(random_tensor({8}, 3), type_of(precision))}};
            return side.ops.linear(side[0], *side.ops.device().pack_linear(source, side.precision(precision)));
        });
}

// Codes whose values both types hold exactly.
LayerWeights int8_codes(const Shape& shape) {
    LayerWeights coded{Tensor::host(shape, DType::i8), Tensor::host({shape[0]})};
    for (int64_t i = 0; i < shape.numel(); ++i)
        coded.values.data<int8_t>()[i] = static_cast<int8_t>(i * 37 % 255 - 127);
    for (int64_t c = 0; c < shape[0]; ++c) coded.scales.data<float>()[c] = c % 2 == 0 ? 1.0F / 256 : 1.0F / 512;
    return coded;
}

TEST_F(GpuProducts, Int8CodesAreTheirValues) {
    for (Precision precision : kPrecisions) {
        compare({{{19, 32}, type_of(precision)}}, tolerance_of(precision), [&](const Side& side) {
            const LinearSource source{{int8_codes({24, 32}), weights_of({8, 32}, precision, 2)}, {}};
            return side.ops.linear(side[0], *side.ops.device().pack_linear(source, side.precision(precision)));
        });
        compare({{{1, 7, 9, 16}, type_of(precision)}}, tolerance_of(precision), [&](const Side& side) {
            const Conv2dSource source{int8_codes({24, 16, 3, 3}), {}, 1, 1};
            return side.ops.conv2d(side[0], *side.ops.device().pack_conv2d(source, side.precision(precision)));
        });
    }
}

TEST_F(GpuProducts, MatmulEqualsTheCpus) {
    struct Sizes {
        int64_t batch, m, k, n;
    };
    for (const Sizes& s : {Sizes{1, 1, 1, 1}, Sizes{2, 5, 7, 3}, Sizes{1, 200, 256, 256}, Sizes{3, 4, 32, 5184},
                           Sizes{4, 33, 65, 17}, Sizes{64, 14, 80, 14}})
        for (bool transposed : {false, true})
            for (Layout layout : {Layout::dense, Layout::part, Layout::gaps, Layout::repeated}) {
                const Shape b = transposed ? Shape{s.batch, s.n, s.k} : Shape{s.batch, s.k, s.n};
                const Layout of_a = layout == Layout::repeated ? Layout::dense : layout;
                compare({{{s.batch, s.m, s.k}, DType::f32, of_a}, {b, DType::f32, layout}}, kF32Tolerance,
                        [&](const Side& side) { return side.ops.matmul(side[0], side[1], transposed, 0.7F); });
                compare({{{s.batch, s.m, s.k}, DType::bf16, of_a}, {b, DType::bf16, layout}}, kBf16Tolerance,
                        [&](const Side& side) { return side.ops.matmul(side[0], side[1], transposed, 0.7F); });
            }
}

// The last one has a result that is large enough to be cut.
TEST_F(GpuProducts, MatmulWithOffsetsEqualsTheCpus) {
    struct Sizes {
        int64_t batch, m, k, n;
    };
    for (const Sizes& s :
         {Sizes{1, 1, 8, 1}, Sizes{2, 5, 7, 3}, Sizes{3, 4, 32, 5184}, Sizes{1, 19, 40, 768}, Sizes{1, 52, 256, 82944}})
        for (DType type : test::kFloatTypes)
            for (bool transposed : {false, true}) {
                const Shape b = transposed ? Shape{s.batch, s.n, s.k} : Shape{s.batch, s.k, s.n};
                compare({{{s.batch, s.m, s.k}, type}, {b, type}, {{s.batch, s.m, 1}, DType::f32}},
                        type == DType::f32 ? kF32Tolerance : kBf16Tolerance,
                        [&](const Side& side) { return side.ops.matmul(side[0], side[1], transposed, 0.7F, side[2]); });
            }
}

struct Conv {
    Shape x;
    int64_t out;
    int kernel, stride, padding, groups = 1;

    std::shared_ptr<const PackedConv2d> pack(const Side& side, Precision precision) const {
        const Conv2dSource source{weights_of({out, x[3] / groups, kernel, kernel}, precision, 93),
                                  rounded(random_tensor({out}, 94), type_of(precision)), stride, padding, groups};
        return side.ops.device().pack_conv2d(source, side.precision(precision));
    }
    Shape result() const {
        return {x[0], (x[1] + 2 * padding - kernel) / stride + 1, (x[2] + 2 * padding - kernel) / stride + 1, out};
    }
};

const Conv kConvolutions[] = {
    {{1, 36, 36, 64}, 64, 3, 1, 1},   {{2, 13, 9, 128}, 40, 3, 1, 1},   {{1, 7, 5, 3}, 5, 3, 1, 1},
    {{1, 56, 42, 3}, 96, 14, 14, 0},  {{1, 16, 16, 256}, 64, 2, 2, 0},  {{2, 31, 20, 1}, 4, 3, 2, 1},
    {{1, 24, 24, 4}, 16, 3, 2, 1},    {{1, 18, 21, 16}, 64, 3, 2, 1},   {{1, 20, 20, 64}, 64, 7, 1, 3, 64},
    {{2, 9, 11, 6}, 6, 7, 1, 3, 6},   {{1, 10, 10, 8}, 12, 3, 1, 1, 4}, {{1, 17, 19, 256}, 32, 1, 1, 0},
    {{2, 6, 5, 10}, 3, 1, 1, 0},      {{1, 72, 72, 256}, 256, 3, 1, 1}, {{2, 13, 9, 128}, 48, 3, 1, 1},
    {{1, 72, 100, 64}, 256, 3, 1, 1}, {{1, 144, 144, 64}, 256, 3, 1, 1}};

TEST_F(GpuProducts, ConvolutionsEqualTheCpus) {
    for (const Conv& c : kConvolutions)
        for (Precision precision : kPrecisions)
            for (DType type : {DType::f32, type_of(precision)})
                compare({{c.x, type}}, tolerance_of(precision),
                        [&](const Side& side) { return side.ops.conv2d(side[0], *c.pack(side, precision)); });
}

TEST_F(GpuProducts, ConvolutionsActivateAndAddResiduals) {
    for (const Conv& c : kConvolutions)
        for (Precision precision : kPrecisions)
            for (Activation activation : {Activation::relu, Activation::gelu})
                for (DType residual : {DType::f32, type_of(precision)})
                    compare({{c.x, type_of(precision), Layout::gaps}, {c.result(), residual, Layout::gaps}},
                            tolerance_of(precision), [&](const Side& side) {
                                return side.ops.conv2d(side[0], *c.pack(side, precision), activation, side[1]);
                            });
}

TEST_F(GpuProducts, TransposedConvolutionsEqualTheCpus) {
    struct Case {
        Shape x;
        int64_t out;
    };
    for (const Case& c :
         {Case{{1, 36, 36, 256}, 64}, Case{{2, 5, 7, 12}, 3}, Case{{3, 8, 8, 64}, 32}, Case{{2, 37, 24, 64}, 128}})
        for (Precision precision : kPrecisions)
            for (Activation activation : {Activation::none, Activation::gelu}) {
                const Linear layer{0, c.x[3], 4 * c.out, precision};
                compare({{c.x, type_of(precision)}}, tolerance_of(precision), [&](const Side& side) {
                    return side.ops.conv_transpose_2x2(side[0], *layer.pack(side), activation);
                });
                const Shape result = {c.x[0], 2 * c.x[1], 2 * c.x[2], c.out};
                for (DType residual : {DType::f32, type_of(precision)})
                    compare({{c.x, type_of(precision)}, {result, residual, Layout::gaps}}, tolerance_of(precision),
                            [&](const Side& side) {
                                return side.ops.conv_transpose_2x2(side[0], *layer.pack(side), activation, side[1]);
                            });
            }
}

}  // namespace
}  // namespace sam3
