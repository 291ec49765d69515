#include "cuda/both_devices.h"

namespace sam3 {
namespace {

using test::compare;
using test::Input;
using test::kBf16Tolerance;
using test::kF32Tolerance;
using test::kFloatTypes;
using test::Layout;
using test::Side;
using test::tolerance_of;

constexpr Activation kActivations[] = {Activation::none,      Activation::relu,    Activation::gelu,
                                       Activation::gelu_tanh, Activation::sigmoid, Activation::silu};

class GpuNorms : public test::OnGpu {};

TEST_F(GpuNorms, LayerNormEqualsTheCpus) {
    for (int64_t channels : {1, 3, 4, 12, 16, 30, 64, 96, 128, 256, 768, 1000, 1024, 1280, 1536, 1540, 3000})
        for (DType from : kFloatTypes)
            for (DType to : kFloatTypes)
                for (Layout layout : {Layout::dense, Layout::gaps, Layout::part})
                    compare({{{2, 37, channels}, from, layout, -1, 3}, {{channels}}, {{channels}}}, tolerance_of(to),
                            [&](const Side& side) {
                                return side.ops.layer_norm(side[0], side[1], side[2], 1e-6F, Activation::none,
                                                           side.type(to));
                            });
}

TEST_F(GpuNorms, LayerNormOfManyRowsEqualsTheCpus) {  // others take a block a row
    for (int64_t channels : {96, 256, 1000, 1024, 1280})
        for (DType from : kFloatTypes)
            compare({{{700, channels}, from, Layout::part, -1, 3}, {{channels}}, {{channels}}}, kF32Tolerance,
                    [&](const Side& side) { return side.ops.layer_norm(side[0], side[1], side[2], 1e-6F); });
}

TEST_F(GpuNorms, LayerNormOfSumsInF16EqualsTheCpus) {
    for (int64_t rows : {30, 700})
        for (int64_t channels : {30, 256, 1024, 1540}) {
            for (DType to : kFloatTypes)
                compare({{{rows, channels}, DType::f16, Layout::part, -1, 3}, {{channels}}, {{channels}}},
                        tolerance_of(to), [&](const Side& side) {
                            return side.ops.layer_norm(side[0], side[1], side[2], 1e-6F, Activation::none,
                                                       side.type(to));
                        });
            compare({{{rows, channels}}, {{channels}}, {{channels}}}, 1.0 / 1024, [&](const Side& side) {
                return side.ops.layer_norm(side[0], side[1], side[2], 1e-6F, Activation::none, side.type(DType::f16));
            });
        }
}

TEST_F(GpuNorms, LayerNormIsStoredToo) {
    for (int64_t channels : {6, 256, 1540})
        for (bool second : {false, true})
            compare({{{2, 201, channels}}, {{channels}}, {{channels}}}, second ? kBf16Tolerance : kF32Tolerance,
                    [&](const Side& side) {
                        side.ops.set_precision(side.precision(Precision::bf16));
                        const auto both = side.ops.layer_norm_and_sum(side[0], side[1], side[2], 1e-5F, {});
                        return second ? both.second : both.first;
                    });
}

TEST_F(GpuNorms, LayerNormAddsUp) {
    for (int64_t channels : {6, 16, 256, 1024, 1540})
        for (int64_t rows : {20, 400})
            for (DType added : kFloatTypes)
                for (Layout layout : {Layout::dense, Layout::part})
                    for (bool second : {false, true})
                        compare({{{2, rows, channels}}, {{channels}}, {{channels}}, {{rows, channels}, added, layout}},
                                kF32Tolerance, [&](const Side& side) {
                                    const auto both =
                                        side.ops.layer_norm_and_sum(side[0], side[1], side[2], 1e-5F, side[3]);
                                    return second ? both.second : both.first;
                                });
}

TEST_F(GpuNorms, LayerNormActivates) {
    for (Activation activation : kActivations)
        for (int64_t rows : {45, 600})
            for (int64_t channels : {4, 16, 64, 65, 256, 1024})
                compare({{{rows, channels}}, {{channels}}, {{channels}}}, kF32Tolerance, [&](const Side& side) {
                    return side.ops.layer_norm(side[0], side[1], side[2], 1e-5F, activation);
                });
}

TEST_F(GpuNorms, LayerNormKeepsItsDigitsWhenTheMeanIsLarge) {
    // Means are about 1000 deviations: a variance from sums of squares would have no digits left.
    for (int64_t channels : {30, 256, 1024})
        compare({{{9, channels}, DType::f32, Layout::dense, 1000, 1002}, {{channels}}, {{channels}}}, 1e-3,
                [](const Side& side) { return side.ops.layer_norm(side[0], side[1], side[2], 1e-6F); });
}

TEST_F(GpuNorms, GroupNormEqualsTheCpus) {
    struct Case {
        Shape shape;
        int groups;
    };
    const Case cases[] = {{{1, 72, 72, 256}, 32}, {{2, 31, 17, 256}, 8}, {{1, 144, 144, 64}, 32},
                          {{3, 5, 7, 6}, 3},      {{1, 1, 1, 4}, 1},     {{2, 9, 4, 2048}, 32},
                          {{1, 13, 11, 300}, 1},  {{1, 20, 20, 33}, 11}, {{1, 3, 3, 1100}, 4},
                          {{1, 100, 90, 1}, 1},   {{1, 3, 7, 4400}, 2},  {{1, 2, 2, 1500}, 1500},
                          {{1, 151, 144, 256}, 8}};
    for (const Case& c : cases)
        for (DType type : kFloatTypes)
            for (Activation activation : {Activation::none, Activation::relu})
                compare({{c.shape, type, Layout::dense, -1, 4}, {{c.shape[3]}}, {{c.shape[3]}}}, tolerance_of(type),
                        [&](const Side& side) {
                            return side.ops.group_norm(side[0], c.groups, side[1], side[2], 1e-5F, activation);
                        });
}

TEST_F(GpuNorms, GroupNormKeepsItsDigitsWhenTheMeanIsLarge) {
    compare({{{1, 64, 64, 32}, DType::f32, Layout::dense, 1000, 1002}, {{32}}, {{32}}}, 1e-3,
            [](const Side& side) { return side.ops.group_norm(side[0], 8, side[1], side[2], 1e-5F); });
}

TEST_F(GpuNorms, GroupNormRepeatsItself) {
    const Tensor x = test::random_tensor({1, 96, 96, 64}, 5);
    const Tensor weights = test::random_tensor({64}, 6);
    Ops ops(*test::gpu().device, 1);
    const Tensor on_gpu = ops.upload(x);
    const Tensor gamma = ops.upload(weights);
    const Tensor first = ops.download(ops.group_norm(on_gpu, 8, gamma, gamma, 1e-5F));
    for (int i = 0; i < 3; ++i) test::expect_equal(ops.download(ops.group_norm(on_gpu, 8, gamma, gamma, 1e-5F)), first);
}

TEST_F(GpuNorms, SoftmaxEqualsTheCpus) {
    for (int64_t columns : {1, 5, 32, 33, 512, 513, 5184})
        for (DType type : kFloatTypes)
            for (Layout layout : {Layout::dense, Layout::gaps})
                compare({{{3, 7, columns}, type, layout, -9, 9}}, tolerance_of(type),
                        [](const Side& side) { return side.ops.softmax(side[0]); });
}

TEST_F(GpuNorms, RopeOfTokensEqualsTheCpus) {
    struct Case {
        Shape shape;
        int heads;
        int64_t positions;
    };
    const Case cases[] = {
        {{2, 36, 64}, 2, 36}, {{1, 48, 256}, 1, 16}, {{2, 10, 12}, 2, 5}, {{1, 7, 20}, 5, 7}, {{1, 300, 128}, 4, 100}};
    for (const Case& c : cases)
        for (DType type : kFloatTypes)
            for (Layout layout : {Layout::dense, Layout::gaps, Layout::part})
                compare({{c.shape, type, layout}, {{c.positions, c.shape[2] / c.heads / 2, 2}}}, tolerance_of(type),
                        [&](const Side& side) {
                            side.ops.rope_2d_(side[0], side[1], c.heads);
                            return side[0];
                        });
}

TEST_F(GpuNorms, RopeOfWindowsEqualsTheCpus) {
    struct Case {
        Shape shape;
        int heads, window;
    };
    const Case cases[] = {
        {{1, 72, 72, 128}, 2, 24}, {{2, 8, 12, 64}, 4, 4}, {{1, 6, 6, 12}, 3, 3}, {{1, 9, 9, 32}, 2, 9}};
    for (const Case& c : cases)
        for (DType type : kFloatTypes)
            for (Layout layout : {Layout::dense, Layout::gaps, Layout::part})
                compare({{c.shape, type, layout},
                         {{static_cast<int64_t>(c.window) * c.window, c.shape[3] / c.heads / 2, 2}}},
                        tolerance_of(type), [&](const Side& side) {
                            side.ops.rope_2d_(side[0], side[1], c.heads, c.window);
                            return side[0];
                        });
}

TEST_F(GpuNorms, RopeLeavesWhatIsBesideItAlone) {
    for (DType type : kFloatTypes)
        compare({{{1, 16, 3 * 64}, type}, {{16, 16, 2}}}, tolerance_of(type), [](const Side& side) {
            side.ops.rope_2d_(side[0].slice(2, 64, 64), side[1], 2);
            return side[0];
        });
}

TEST_F(GpuNorms, SineEmbeddingsEqualTheCpus) {
    for (int dim : {2, 6, 128, 256})
        for (float scale : {1.0F, 6.2831855F})
            compare({{{5, 4}, DType::f32, Layout::gaps, 0, 3}}, kF32Tolerance,
                    [&](const Side& side) { return side.ops.sine_embed(side[0], dim, 10000.0F, scale); });
}

TEST_F(GpuNorms, BiasesOfBoxesEqualTheCpus) {
    struct Case {
        int64_t images, queries, channels, heads, height, width;
    };
    for (const Case& c : {Case{1, 200, 256, 8, 72, 72}, Case{2, 5, 32, 4, 24, 16}, Case{1, 3, 20, 11, 130, 7},
                          Case{1, 9, 300, 8, 31, 64}})
        for (bool rows : {false, true}) {
            std::vector<Input> inputs = {{{c.images, c.queries, 4}, DType::f32, Layout::gaps}};
            for (int axis = 0; axis < 2; ++axis)
                for (const Shape& shape :
                     {Shape{c.channels, 2}, Shape{c.channels}, Shape{c.heads, c.channels}, Shape{c.heads}})
                    inputs.push_back(Input{shape});
            compare(inputs, kF32Tolerance, [&](const Side& side) {
                const AttentionOptions bias =
                    side.ops.box_bias(side[0], {side[1], side[2], side[3], side[4]},
                                      {side[5], side[6], side[7], side[8]}, c.height, c.width);
                return rows ? bias.bias_rows : bias.bias_cols;
            });
        }
}

}  // namespace
}  // namespace sam3
