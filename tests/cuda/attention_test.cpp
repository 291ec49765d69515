#include "cuda/both_devices.h"

namespace sam3 {
namespace {

using test::compare;
using test::Input;
using test::kFloatTypes;
using test::Layout;
using test::Side;
using test::tolerance_of;

class GpuAttention : public test::OnGpu {};

struct Sizes {
    int64_t batch, queries, keys;
    int heads;
    int64_t head_size, value_size;
};

// q, k and v, which give logits of a few units.
std::vector<Input> inputs_of(const Sizes& s, DType type, Layout layout = Layout::dense) {
    return {{{s.batch, s.queries, s.heads * s.head_size}, type, layout, -2, 2},
            {{s.batch, s.keys, s.heads * s.head_size}, type, layout, -2, 2},
            {{s.batch, s.keys, s.heads * s.value_size}, type, layout}};
}

AttentionOptions with_heads(int heads) {
    AttentionOptions options;
    options.heads = heads;
    return options;
}

TEST_F(GpuAttention, EqualsTheCpusOnEveryHeadSize) {
    for (int64_t size : {8, 16, 32, 64, 128, 256, 5, 24, 80})
        for (DType type : kFloatTypes)
            for (Layout layout : {Layout::dense, Layout::part, Layout::gaps})
                compare(inputs_of({2, 67, 131, 3, size, size}, type, layout), tolerance_of(type),
                        [](const Side& side) { return side.ops.attention(side[0], side[1], side[2], with_heads(3)); });
}

TEST_F(GpuAttention, EqualsTheCpusOnManyCounts) {
    const Sizes sizes[] = {
        {1, 1, 1, 1, 8, 8},        {1, 201, 5184, 8, 32, 32}, {1, 5184, 9, 8, 16, 16},   {1, 64, 64, 4, 64, 64},
        {3, 5, 40, 8, 32, 32},     {1, 300, 300, 2, 64, 64},  {2, 4096, 7, 1, 128, 128}, {1, 7, 4096, 1, 256, 256},
        {9, 32, 32, 8, 128, 128},  {1, 65, 129, 2, 32, 64},   {2, 13, 17, 3, 5, 9},      {1, 1024, 1024, 4, 64, 64},
        {1, 2000, 33, 8, 32, 32},  {2, 32, 32, 16, 64, 64},   {1, 17, 48, 3, 64, 64},    {2, 1100, 16, 2, 16, 16},
        {1, 201, 201, 8, 32, 32},  {2, 2, 5184, 8, 32, 32},   {3, 40, 1300, 2, 32, 32},  {1, 500, 73, 1, 32, 32},
        {1, 16, 12000, 2, 32, 32}, {1, 40, 40, 2, 64, 32},    {2, 90, 300, 2, 32, 16}};
    for (const Sizes& s : sizes)
        for (DType type : kFloatTypes)
            compare(inputs_of(s, type), tolerance_of(type), [&](const Side& side) {
                return side.ops.attention(side[0], side[1], side[2], with_heads(s.heads));
            });
}

// A tracker's attention: one wide head, long lists, values as wide or narrower; counts that fill tiles and do not, and
// so few queries that keys are shared out.
TEST_F(GpuAttention, EqualsTheCpusOnTheSizesOfMemories) {
    const Sizes sizes[] = {{2, 640, 1024, 1, 256, 64},  {3, 513, 777, 1, 256, 64},   {1, 700, 5248, 1, 256, 64},
                           {4, 1300, 2100, 1, 256, 64}, {1, 7, 4096, 1, 256, 64},    {2, 640, 960, 1, 256, 256},
                           {1, 513, 5184, 1, 256, 256}, {2, 520, 1031, 1, 256, 256}, {1, 100, 200, 1, 128, 64},
                           {2, 600, 600, 2, 64, 32}};
    for (const Sizes& s : sizes)
        for (DType type : kFloatTypes)
            compare(inputs_of(s, type), tolerance_of(type), [&](const Side& side) {
                return side.ops.attention(side[0], side[1], side[2], with_heads(s.heads));
            });
}

TEST_F(GpuAttention, EqualsTheCpusOnTheMemoriesOfObjectsThatShareAFrame) {
    for (int64_t values : {64, 256})
        for (bool masked : {false, true}) {
            std::vector<Input> inputs = inputs_of({3, 650, 1100, 1, 256, values}, DType::bf16);
            inputs[0].layout = Layout::repeated;
            if (masked) inputs.push_back({{3, 1100}, DType::u8, Layout::dense, 0, 1});
            compare(inputs, tolerance_of(DType::bf16), [&](const Side& side) {
                AttentionOptions options = with_heads(1);
                if (masked) {
                    options.key_mask = side[3];
                    side.ops.copy_(side[3].slice(1, 0, 300), side.ops.full({3, 300}, 0.0F, DType::u8));
                }
                return side.ops.attention(side[0], side[1], side[2], options);
            });
        }
}

TEST_F(GpuAttention, EqualsTheCpusWhereABatchSharesItsKeys) {
    for (int64_t size : {16, 32, 64})
        for (DType type : kFloatTypes) {
            std::vector<Input> inputs = inputs_of({4, 30, 577, 2, size, size}, type);
            inputs[1].layout = inputs[2].layout = Layout::repeated;
            compare(inputs, tolerance_of(type),
                    [](const Side& side) { return side.ops.attention(side[0], side[1], side[2], with_heads(2)); });
            inputs = inputs_of({4, 30, 577, 2, size, size}, type);
            inputs[0].layout = Layout::repeated;
            compare(inputs, tolerance_of(type),
                    [](const Side& side) { return side.ops.attention(side[0], side[1], side[2], with_heads(2)); });
        }
}

TEST_F(GpuAttention, EqualsTheCpusInWindows) {
    struct Case {
        Shape shape;  // of each, [N, H, W, heads * D]
        int heads, window;
    };
    const Case cases[] = {{{1, 72, 72, 128}, 2, 24}, {{2, 12, 8, 64}, 4, 4},  {{1, 28, 28, 160}, 2, 14},
                          {{1, 6, 9, 24}, 3, 3},     {{3, 16, 16, 64}, 2, 8}, {{1, 7, 7, 32}, 1, 7}};
    for (const Case& c : cases)
        for (DType type : kFloatTypes)
            for (Layout layout : {Layout::dense, Layout::part})
                compare({{c.shape, type, layout, -2, 2}, {c.shape, type, layout, -2, 2}, {c.shape, type, layout}},
                        tolerance_of(type), [&](const Side& side) {
                            AttentionOptions options = with_heads(c.heads);
                            options.window = c.window;
                            return side.ops.attention(side[0], side[1], side[2], options);
                        });
}

// Weights are powers of what scores are above those of the first keys; here most rows have others that are larger by
// hundreds.
TEST_F(GpuAttention, EqualsTheCpusWhereScoresOutgrowThoseOfTheFirstKeys) {
    const Sizes sizes[] = {{1, 640, 1024, 2, 64, 64},  {2, 600, 777, 3, 32, 32},   {1, 640, 1100, 1, 256, 64},
                           {1, 513, 960, 1, 256, 256}, {1, 700, 5248, 1, 256, 64}, {3, 2000, 2000, 4, 64, 64}};
    for (const Sizes& s : sizes) {
        std::vector<Input> inputs = inputs_of(s, DType::bf16);
        inputs[1].low = -1000;
        inputs[1].high = 1000;
        compare(inputs, tolerance_of(DType::bf16),
                [&](const Side& side) { return side.ops.attention(side[0], side[1], side[2], with_heads(s.heads)); });
    }
    const Shape shape{3, 72, 72, 256};
    compare({{shape, DType::bf16, Layout::dense, -2, 2},
             {shape, DType::bf16, Layout::dense, -1000, 1000},
             {shape, DType::bf16}},
            tolerance_of(DType::bf16), [&](const Side& side) {
                AttentionOptions options = with_heads(4);
                options.window = 24;
                return side.ops.attention(side[0], side[1], side[2], options);
            });
}

TEST_F(GpuAttention, EqualsTheCpusWithMasks) {
    for (int64_t size : {16, 32, 64, 128})
        for (DType type : kFloatTypes) {
            for (int64_t tokens : {1, 32, 77, 200})
                compare(inputs_of({2, tokens, tokens, 2, size, size}, type), tolerance_of(type), [](const Side& side) {
                    AttentionOptions options = with_heads(2);
                    options.causal = true;
                    return side.ops.attention(side[0], side[1], side[2], options);
                });
            for (bool causal : {false, true})
                for (int64_t keys : {7, 33, 64, 150}) {
                    std::vector<Input> inputs = inputs_of({3, 70, keys, 2, size, size}, type, Layout::part);
                    inputs.push_back({{3, keys}, DType::u8, Layout::gaps, 0, 1});
                    compare(inputs, tolerance_of(type), [&](const Side& side) {
                        AttentionOptions options = with_heads(2);
                        options.key_mask = side[3];
                        options.causal = causal;
                        return side.ops.attention(side[0], side[1], side[2], options);
                    });
                }
        }
}

TEST_F(GpuAttention, GivesZerosWhereNoKeyIsLeft) {
    for (DType type : kFloatTypes)
        for (int64_t keys : {30, 70})
            compare(inputs_of({2, 9, keys, 2, 32, 32}, type), test::kExact, [&](const Side& side) {
                AttentionOptions options = with_heads(2);
                options.key_mask = side.ops.full({2, keys}, 0.0F, DType::u8);
                return side.ops.attention(side[0], side[1], side[2], options);
            });
}

TEST_F(GpuAttention, EqualsTheCpusWithABias) {
    for (int64_t size : {8, 32, 64})
        for (DType type : kFloatTypes)
            for (Layout layout : {Layout::dense, Layout::gaps, Layout::repeated}) {
                std::vector<Input> inputs = inputs_of({2, 45, 91, 4, size, size}, type);
                inputs.push_back({{2, 4, 45, 91}, DType::f32, layout, -3, 3});
                compare(inputs, tolerance_of(type), [](const Side& side) {
                    AttentionOptions options = with_heads(4);
                    options.bias = side[3];
                    return side.ops.attention(side[0], side[1], side[2], options);
                });
            }
}

TEST_F(GpuAttention, EqualsTheCpusWithBiasesOfRowsAndColumns) {
    struct Case {
        Sizes sizes;
        int64_t height, width;
    };
    const Case cases[] = {{{2, 30, 12 * 7, 2, 64, 64}, 12, 7},
                          {{1, 201, 5184, 8, 32, 32}, 72, 72},
                          {{1, 196, 196, 2, 80, 80}, 14, 14},
                          {{3, 5, 6, 1, 16, 16}, 2, 3}};
    for (const Case& c : cases)
        for (DType type : kFloatTypes) {
            std::vector<Input> inputs = inputs_of(c.sizes, type);
            for (int64_t side : {c.height, c.width})
                inputs.push_back(
                    {{c.sizes.batch, c.sizes.heads, c.sizes.queries, side}, DType::f32, Layout::dense, -2, 2});
            compare(inputs, tolerance_of(type), [&](const Side& side) {
                AttentionOptions options = with_heads(c.sizes.heads);
                options.bias_rows = side[3];
                options.bias_cols = side[4];
                return side.ops.attention(side[0], side[1], side[2], options);
            });
        }
}

TEST_F(GpuAttention, TakesAScale) {
    for (DType type : kFloatTypes)
        compare(inputs_of({1, 40, 80, 2, 64, 64}, type), tolerance_of(type), [](const Side& side) {
            AttentionOptions options = with_heads(2);
            options.scale = 0.31F;
            return side.ops.attention(side[0], side[1], side[2], options);
        });
}

}  // namespace
}  // namespace sam3
