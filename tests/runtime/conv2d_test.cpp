#include "runtime/cpu/simd/simd.h"
#include "support/reference.h"
#include "support/tensors.h"
#include "util/error.h"

#include <gtest/gtest.h>

namespace sam3 {
namespace {

using test::at;
using test::cpu;
using test::expect_close;
using test::expect_equal;
using test::random_tensor;

Tensor reference_conv2d(const Tensor& x, const Conv2dSource& conv, Activation activation, const Tensor& residual) {
    const Tensor& w = conv.weight.values;
    const int64_t out_channels = w.dim(0);
    const int64_t group_in = w.dim(1);
    const int64_t group_out = out_channels / conv.groups;
    const int64_t ho = (x.dim(1) + 2 * conv.padding - w.dim(2)) / conv.stride + 1;
    const int64_t wo = (x.dim(2) + 2 * conv.padding - w.dim(3)) / conv.stride + 1;
    Tensor result = Tensor::host({x.dim(0), ho, wo, out_channels});
    for (int64_t i = 0; i < result.numel(); ++i) {
        const int64_t o = i % out_channels;
        const int64_t ox = i / out_channels % wo;
        const int64_t oy = i / out_channels / wo % ho;
        const int64_t n = i / out_channels / wo / ho;
        double sum = conv.bias ? static_cast<double>(at(conv.bias, o)) : 0.0;
        for (int64_t c = 0; c < group_in; ++c)
            for (int64_t ky = 0; ky < w.dim(2); ++ky)
                for (int64_t kx = 0; kx < w.dim(3); ++kx) {
                    const int64_t y = oy * conv.stride - conv.padding + ky;
                    const int64_t column = ox * conv.stride - conv.padding + kx;
                    if (y < 0 || y >= x.dim(1) || column < 0 || column >= x.dim(2)) continue;
                    const int64_t channel = o / group_out * group_in + c;
                    sum += static_cast<double>(at(x, ((n * x.dim(1) + y) * x.dim(2) + column) * x.dim(3) + channel)) *
                           static_cast<double>(at(w, ((o * group_in + c) * w.dim(2) + ky) * w.dim(3) + kx));
                }
        sum = test::activate(sum, activation) + (residual ? static_cast<double>(at(residual, i)) : 0.0);
        result.data<float>()[i] = static_cast<float>(sum);
    }
    return result;
}

struct Case {
    int64_t n, h, w, in, out;
    int kh, kw, stride, padding, groups;
};
constexpr Case kCases[] = {
    {1, 1, 1, 1, 2, 1, 1, 1, 0, 1},        // as small as it gets
    {2, 9, 7, 5, 3, 3, 3, 1, 1, 1},        // odd sizes
    {1, 8, 8, 64, 40, 3, 3, 1, 1, 1},      // several blocks of depth
    {1, 28, 42, 3, 20, 14, 14, 14, 0, 1},  // patch embedding
    {1, 30, 29, 3, 9, 7, 7, 4, 3, 1},      //
    {2, 11, 10, 1, 4, 3, 3, 2, 1, 1},      // down-sampling of masks
    {1, 10, 13, 4, 16, 3, 3, 2, 1, 1},     //
    {1, 6, 5, 12, 30, 1, 1, 1, 0, 1},      // a linear layer
    {1, 6, 5, 12, 30, 1, 1, 2, 0, 1},      //
    {1, 4, 4, 6, 4, 2, 2, 2, 0, 1},        //
    {1, 2, 2, 3, 4, 3, 3, 1, 2, 1},        // more padding than image
    {1, 12, 5, 8, 12, 3, 3, 1, 1, 4},      // groups
    {2, 9, 9, 4, 8, 3, 1, 1, 1, 2},        //
    {1, 15, 23, 32, 32, 7, 7, 1, 3, 32},   // depthwise
    {2, 20, 21, 19, 19, 3, 3, 2, 1, 19},   //
    {1, 3, 3, 17, 17, 5, 5, 1, 2, 17},     // depthwise, kernel larger than the image
    {1, 6, 6, 5, 10, 3, 3, 1, 1, 5},       // two outputs a channel
};

Conv2dSource random_conv(const Case& c, unsigned seed) {
    return {random_tensor({c.out, c.in / c.groups, c.kh, c.kw}, seed), random_tensor({c.out}, seed + 1), c.stride,
            c.padding, c.groups};
}

TEST(Conv2d, EqualsThePlainLoopOnAllSizes) {
    unsigned seed = 1;
    for (const Case& c : kCases) {
        const Tensor x = random_tensor({c.n, c.h, c.w, c.in}, seed += 7);
        Conv2dSource source = random_conv(c, seed + 1);
        const auto packed = cpu().pack_conv2d(source, Precision::f32);
        const Tensor plain = Ops(cpu(), 1).conv2d(x, *packed);
        expect_close(plain, reference_conv2d(x, source, Activation::none, {}), 2e-6);
        const Tensor residual = random_tensor(plain.shape(), seed + 5);
        const Tensor one = Ops(cpu(), 1).conv2d(x, *packed, Activation::gelu, residual);
        expect_close(one, reference_conv2d(x, source, Activation::gelu, residual), 2e-6);
        for (const int threads : {2, 3})
            expect_equal(Ops(cpu(), threads).conv2d(x, *packed, Activation::gelu, residual), one);

        source.bias = Tensor();
        const auto without = cpu().pack_conv2d(source, Precision::f32);
        expect_close(Ops(cpu(), 2).conv2d(x, *without), reference_conv2d(x, source, Activation::none, {}), 2e-6);
    }
}

TEST(Conv2d, KnowsEveryActivation) {
    for (const Case& c : {Case{1, 7, 9, 6, 10, 3, 3, 1, 1, 1}, Case{1, 7, 20, 18, 18, 3, 3, 1, 1, 18}}) {
        const Tensor x = random_tensor({c.n, c.h, c.w, c.in}, 1, -2, 2);
        const Conv2dSource source = random_conv(c, 2);
        const auto packed = cpu().pack_conv2d(source, Precision::f32);
        for (const Activation activation : test::kActivations)
            expect_close(Ops(cpu(), 2).conv2d(x, *packed, activation), reference_conv2d(x, source, activation, {}),
                         2e-6);
    }
}

TEST(Conv2d, EveryInstructionSetAgrees) {
    const simd::Table& best = simd::table();
    for (const Case& c : {Case{1, 9, 11, 40, 70, 3, 3, 1, 1, 1}, Case{1, 9, 19, 37, 37, 7, 7, 1, 3, 37}}) {
        const Tensor x = random_tensor({c.n, c.h, c.w, c.in}, 1);
        const Conv2dSource source = random_conv(c, 2);
        const Tensor expected = reference_conv2d(x, source, Activation::gelu, {});
        for (const simd::Table* const* table = simd::available_tables(); *table != nullptr; ++table) {
            simd::use_table(**table);
            const Tensor y = Ops(cpu(), 2).conv2d(x, *cpu().pack_conv2d(source, Precision::f32), Activation::gelu);
            simd::use_table(best);
            SCOPED_TRACE((*table)->name);
            expect_close(y, expected, 2e-6);
        }
    }
}

TEST(Conv2d, RefusesWeightsThatDoNotFit) {
    EXPECT_THROW(cpu().pack_conv2d({}, Precision::f32), Error);
    EXPECT_THROW(cpu().pack_conv2d({random_tensor({4, 4, 3}, 1), {}}, Precision::f32), Error);
    EXPECT_THROW(cpu().pack_conv2d({random_tensor({4, 4, 3, 3}, 1), random_tensor({3}, 1)}, Precision::f32), Error);
    EXPECT_THROW(cpu().pack_conv2d({random_tensor({4, 4, 3, 3}, 1), {}, 0}, Precision::f32), Error);
    EXPECT_THROW(cpu().pack_conv2d({random_tensor({4, 4, 3, 3}, 1), {}, 1, -1}, Precision::f32), Error);
    EXPECT_THROW(cpu().pack_conv2d({random_tensor({4, 4, 3, 3}, 1), {}, 1, 0, 3}, Precision::f32), Error);
}

}  // namespace
}  // namespace sam3
