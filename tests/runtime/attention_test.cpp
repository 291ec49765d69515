#include "support/simd_variants.h"
#include "support/tensors.h"

#include <cmath>
#include <limits>
#include <vector>

namespace sam3 {
namespace {

using test::cpu;
using test::expect_close;
using test::expect_equal;
using test::random_strided;
using test::random_tensor;

constexpr double kHidden = -std::numeric_limits<double>::infinity();

Ops ops(int threads = 2) { return Ops(cpu(), threads); }

float element(const Tensor& t, std::initializer_list<int64_t> index) {
    int64_t offset = 0;
    int d = 0;
    for (int64_t i : index) offset += i * t.stride(d++);
    return t.data<float>()[offset];
}

// Row t of head h of a [N, T, C] tensor, or token t of its window when the tensor is a map.
struct TokenRows {
    const Tensor& x;
    int64_t window;
    int64_t head_size;

    const float* row(int64_t n, int64_t unit, int64_t t, int64_t h) const {
        const float* base = x.data<float>() + n * x.stride(0) + h * head_size;
        if (window == 0) return base + t * x.stride(1);
        const int64_t across = x.dim(2) / window;
        const int64_t y = unit / across * window + t / window;
        const int64_t c = unit % across * window + t % window;
        return base + y * x.stride(1) + c * x.stride(2);
    }
};

double score(const AttentionOptions& options, const TokenRows& q, const TokenRows& k, int64_t n, int64_t unit,
             int64_t h, int64_t i, int64_t j) {
    const float* a = q.row(n, unit, i, h);
    const float* b = k.row(n, unit, j, h);
    double s = 0;
    for (int64_t d = 0; d < q.head_size; ++d) s += static_cast<double>(a[d]) * static_cast<double>(b[d]);
    s *= options.scale == 0 ? 1.0 / std::sqrt(static_cast<double>(q.head_size)) : static_cast<double>(options.scale);
    if (options.bias) s += static_cast<double>(element(options.bias, {n, h, i, j}));
    if (options.bias_rows) {
        const int64_t width = options.bias_cols.dim(3);
        s += static_cast<double>(element(options.bias_rows, {n, h, i, j / width}));
        s += static_cast<double>(element(options.bias_cols, {n, h, i, j % width}));
    }
    if (options.causal && j > i) return kHidden;
    if (options.key_mask && options.key_mask.data<uint8_t>()[n * options.key_mask.stride(0) + j] == 0) return kHidden;
    return s;
}

// The definition, in double.
Tensor reference(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
    const int64_t w = options.window;
    const int64_t units = w > 0 ? q.dim(1) / w * (q.dim(2) / w) : 1;
    const int64_t queries = w > 0 ? w * w : q.dim(1);
    const int64_t keys = w > 0 ? w * w : k.dim(1);
    Shape shape = q.shape();
    shape[-1] = v.dim(-1);
    Tensor out = Tensor::host(shape);
    const TokenRows q_rows{q, w, q.dim(-1) / options.heads};
    const TokenRows k_rows{k, w, k.dim(-1) / options.heads};
    const TokenRows v_rows{v, w, v.dim(-1) / options.heads};
    const TokenRows out_rows{out, w, v_rows.head_size};
    std::vector<double> weights(static_cast<size_t>(keys));
    for (int64_t item = 0; item < q.dim(0) * units * options.heads * queries; ++item) {
        const int64_t i = item % queries;
        const int64_t h = item / queries % options.heads;
        const int64_t unit = item / queries / options.heads % units;
        const int64_t n = item / queries / options.heads / units;
        double maximum = kHidden;
        for (int64_t j = 0; j < keys; ++j) {
            weights[static_cast<size_t>(j)] = score(options, q_rows, k_rows, n, unit, h, i, j);
            maximum = std::max(maximum, weights[static_cast<size_t>(j)]);
        }
        double total = 0;
        for (double& weight : weights) {
            weight = maximum == kHidden ? 0.0 : std::exp(weight - maximum);
            total += weight;
        }
        std::vector<double> sums(static_cast<size_t>(v_rows.head_size));
        for (int64_t j = 0; j < keys; ++j)
            for (size_t d = 0; d < sums.size(); ++d)
                sums[d] += weights[static_cast<size_t>(j)] * static_cast<double>(v_rows.row(n, unit, j, h)[d]);
        float* row = out.data<float>() + (out_rows.row(n, unit, i, h) - out.data<float>());
        for (double sum : sums) *row++ = total == 0 ? 0.0F : static_cast<float>(sum / total);
    }
    return out;
}

// The three operands as slices of one tensor, as a fused projection gives them.
struct Qkv {
    Tensor q, k, v;
};
Qkv fused(int64_t batch, int64_t tokens, int64_t channels, unsigned seed, float range = 1.0F) {
    const Tensor all = random_tensor({batch, tokens, 3 * channels}, seed, -range, range);
    return {all.slice(2, 0, channels), all.slice(2, channels, channels), all.slice(2, 2 * channels, channels)};
}

Tensor random_mask(int64_t batch, int64_t keys, unsigned seed) {
    Tensor mask = ops().empty({batch, keys}, DType::u8);
    std::mt19937 generator(seed);
    for (int64_t i = 0; i < mask.numel(); ++i) mask.data<uint8_t>()[i] = generator() % 3 != 0;
    return mask;
}

class Attention : public test::SimdVariants {
protected:
    static void check(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                      double tolerance = 2e-6) {
        const Tensor expected = reference(q, k, v, options);
        const Tensor exact = ops().attention(q, k, v, options);
        expect_close(exact, expected, tolerance);
        Ops rounding = ops();
        rounding.set_precision(Precision::bf16);
        const Tensor rounded = rounding.attention(q, k, v, options);
        if (simd::table().bf16_attention == nullptr)
            expect_equal(rounded, exact);
        else if (tolerance <= 2e-6 && expected.numel() > 1)  // logits of a few units, whose factors have 8 bits
            expect_close(rounded, expected, 2e-2);
    }
};

TEST_P(Attention, EqualsTheDefinitionOnManySizes) {
    struct Case {
        int64_t batch, queries, keys;
        int heads;
        int64_t head_size, value_size;
    };
    const Case cases[] = {{1, 1, 1, 1, 1, 1},      {1, 1, 1, 1, 64, 64},     {2, 7, 33, 2, 16, 16},
                          {1, 3, 300, 1, 24, 24},  {1, 97, 65, 2, 32, 32},   {2, 13, 17, 3, 5, 9},
                          {1, 31, 257, 1, 80, 80}, {1, 6, 64, 1, 64, 7},     {1, 101, 512, 1, 32, 48},
                          {1, 12, 513, 2, 3, 33},  {1, 20, 90, 1, 256, 256}, {3, 8, 5, 4, 8, 96},
                          {2, 40, 300, 1, 256, 64}};
    unsigned seed = 1;
    for (const Case& c : cases) {
        AttentionOptions options;
        options.heads = c.heads;
        check(random_strided({c.batch, c.queries, c.heads * c.head_size}, seed, -2.0F, 2.0F),
              random_strided({c.batch, c.keys, c.heads * c.head_size}, seed + 1, -2.0F, 2.0F),
              random_strided({c.batch, c.keys, c.heads * c.value_size}, seed + 2), options);
        seed += 3;
    }
}

TEST_P(Attention, ReadsSlicesOfOneFusedTensor) {
    const Qkv x = fused(2, 130, 96, 5);
    AttentionOptions options;
    options.heads = 3;
    options.scale = 0.7F;
    check(x.q, x.k, x.v, options);
}

TEST_P(Attention, StaysAccurateOverLongSequences) {
    const Qkv x = fused(1, 1500, 32, 6, 4.0F);
    AttentionOptions options;
    check(x.q.slice(1, 0, 120), x.k, x.v, options);
}

TEST_P(Attention, WindowsAttendOnlyInsideTheirTile) {
    struct Case {
        int64_t batch, height, width;
        int window, heads;
        int64_t head_size;
    };
    for (const Case& c : {Case{1, 6, 9, 3, 2, 16}, Case{2, 8, 8, 4, 1, 24}, Case{1, 5, 5, 5, 1, 64},
                          Case{1, 3, 2, 1, 2, 8}, Case{1, 17, 34, 17, 1, 32}}) {
        const int64_t channels = c.heads * c.head_size;
        const Tensor all = random_tensor({c.batch, c.height, c.width, 3 * channels}, 7, -2.0F, 2.0F);
        AttentionOptions options;
        options.heads = c.heads;
        options.window = c.window;
        check(all.slice(3, 0, channels), all.slice(3, channels, channels), all.slice(3, 2 * channels, channels),
              options);
    }
}

TEST_P(Attention, CausalQueriesSeeNoLaterKey) {
    AttentionOptions options;
    options.heads = 2;
    options.causal = true;
    for (int64_t tokens : {1, 32, 100, 400}) {
        const Qkv x = fused(1, tokens, 32, 8, 2.0F);
        check(x.q, x.k, x.v, options);
    }
    const Qkv x = fused(1, 300, 32, 9, 2.0F);
    check(x.q, x.k.slice(1, 0, 20), x.v.slice(1, 0, 20), options);
    check(x.q.slice(1, 0, 20), x.k, x.v, options);
}

TEST_P(Attention, MaskedKeysCountForNothing) {
    for (int64_t keys : {3, 33, 300, 520}) {
        const Qkv x = fused(2, keys, 48, 10, 2.0F);
        AttentionOptions options;
        options.heads = 2;
        options.key_mask = random_mask(2, keys, 11);
        options.key_mask.data<uint8_t>()[0] = 1;
        check(x.q.slice(1, 0, std::min<int64_t>(keys, 50)), x.k, x.v, options);
        options.causal = true;
        check(x.q.slice(1, 0, std::min<int64_t>(keys, 280)), x.k, x.v, options);
    }
}

TEST_P(Attention, LeadingTilesMayBeMaskedWhole) {
    const Qkv x = fused(1, 700, 16, 12, 2.0F);
    AttentionOptions options;
    options.key_mask = random_mask(1, 700, 13);
    std::fill_n(options.key_mask.data<uint8_t>(), 600, uint8_t{0});
    check(x.q.slice(1, 0, 30), x.k, x.v, options);
}

TEST_P(Attention, ARowWithEveryKeyMaskedIsZero) {
    const Qkv x = fused(2, 40, 32, 14);
    AttentionOptions options;
    options.key_mask = random_mask(2, 40, 15);
    std::fill_n(options.key_mask.data<uint8_t>(), 40, uint8_t{0});
    const Tensor out = ops().attention(x.q, x.k, x.v, options);
    for (int64_t i = 0; i < 40 * 32; ++i) ASSERT_EQ(out.data<float>()[i], 0.0F);
    expect_close(out, reference(x.q, x.k, x.v, options), 2e-6);
}

TEST_P(Attention, AddsAFullBiasThatMayBeStridedAndExpanded) {
    const Qkv x = fused(2, 70, 64, 16);
    AttentionOptions options;
    options.heads = 2;
    options.bias = random_strided({2, 2, 70, 70}, 17, -5.0F, 5.0F);
    check(x.q, x.k, x.v, options);
    options.bias = random_tensor({1, 2, 70, 70}, 18, -5.0F, 5.0F).expand(0, 2);
    options.key_mask = random_mask(2, 70, 19);
    check(x.q, x.k, x.v, options);
}

TEST_P(Attention, AFullBiasOfMinusInfinityMasks) {
    const Qkv x = fused(1, 40, 32, 20);
    AttentionOptions options;
    options.bias = random_tensor({1, 1, 40, 40}, 21);
    for (int64_t i = 0; i < 40; ++i)
        for (int64_t j = 0; j < 40; ++j)
            if (j > i / 2 || i == 7) options.bias.data<float>()[i * 40 + j] = static_cast<float>(kHidden);
    check(x.q, x.k, x.v, options);
}

TEST_P(Attention, AddsFactoredBiasesOverAGridOfKeys) {
    struct Grid {
        int64_t height, width;
    };
    for (const Grid grid :
         {Grid{1, 1}, Grid{1, 33}, Grid{33, 1}, Grid{7, 5}, Grid{18, 20}, Grid{24, 24}, Grid{3, 280}}) {
        const Tensor q = random_tensor({2, 11, 32}, 22);
        const Tensor k = random_tensor({2, grid.height * grid.width, 32}, 23);
        const Tensor v = random_tensor({2, grid.height * grid.width, 32}, 24);
        AttentionOptions options;
        options.heads = 2;
        options.bias_rows = random_strided({2, 2, 11, grid.height}, 25, -5.0F, 5.0F);
        options.bias_cols = random_strided({2, 2, 11, grid.width}, 26, -5.0F, 5.0F);
        check(q, k, v, options);
    }
}

TEST_P(Attention, KeysAndValuesMayBeExpandedOverTheBatch) {
    const Tensor q = random_tensor({4, 9, 32}, 27);
    const Tensor k = random_tensor({1, 50, 32}, 28).expand(0, 4);
    const Tensor v = random_tensor({1, 50, 32}, 29).expand(0, 4);
    AttentionOptions options;
    options.heads = 2;
    check(q, k, v, options);
}

TEST_P(Attention, LargeLogitsDoNotOverflow) {
    for (float size : {80.0F, -80.0F, 3000.0F}) {
        Qkv x = fused(1, 300, 16, 30);
        AttentionOptions options;
        options.scale = 1.0F;
        options.bias = random_tensor({1, 1, 300, 300}, 31, -std::abs(size), std::abs(size));
        for (int64_t i = 0; i < 300 * 300; ++i) options.bias.data<float>()[i] += size;
        check(x.q, x.k, x.v, options, size > 1000 ? 2e-3 : 2e-5);
    }
}

TEST_P(Attention, ResultsDoNotDependOnTheNumberOfThreads) {
    const Qkv x = fused(1, 607, 96, 32, 2.0F);
    for (bool causal : {false, true}) {
        AttentionOptions options;
        options.heads = 3;
        options.causal = causal;
        const Tensor one = ops(1).attention(x.q, x.k, x.v, options);
        for (int threads : {2, 3, 7}) expect_equal(ops(threads).attention(x.q, x.k, x.v, options), one);
    }
    AttentionOptions options;
    options.heads = 2;
    options.window = 12;
    const Tensor map = random_tensor({1, 24, 36, 64}, 33);
    expect_equal(ops(3).attention(map, map, map, options), ops(1).attention(map, map, map, options));
    Ops one = ops(1), three = ops(3);
    one.set_precision(Precision::bf16);
    three.set_precision(Precision::bf16);
    expect_equal(three.attention(map, map, map, options), one.attention(map, map, map, options));
}

TEST_P(Attention, NanInAQueryStaysInItsRow) {
    const Qkv x = fused(1, 20, 16, 34);
    AttentionOptions options;
    const Tensor clean = ops().attention(x.q, x.k, x.v, options);
    x.q.data<float>()[3 * x.q.stride(1) + 2] = std::nanf("");
    const Tensor out = ops().attention(x.q, x.k, x.v, options);
    for (int64_t i = 0; i < 20 * 16; ++i) {
        if (i / 16 == 3)
            ASSERT_TRUE(std::isnan(out.data<float>()[i]));
        else
            ASSERT_EQ(out.data<float>()[i], clean.data<float>()[i]);
    }
}

SAM3_TEST_SIMD_VARIANTS(Attention);

}  // namespace
}  // namespace sam3
