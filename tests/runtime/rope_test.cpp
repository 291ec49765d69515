#include "support/simd_variants.h"
#include "support/tensors.h"
#include "util/error.h"

#include <cmath>

namespace sam3 {
namespace {

using test::at;
using test::cpu;
using test::expect_close;
using test::expect_equal;
using test::random_tensor;

// A copy of x in which every pair is turned by its table entry.
Tensor reference(const Tensor& x, const Tensor& table, int heads, int64_t window) {
    Tensor out = Tensor::host(x.shape());
    const int64_t channels = x.dim(-1);
    const int64_t half = channels / heads / 2;
    for (int64_t i = 0; i < x.numel(); i += 2) {
        const int64_t token = i / channels;
        const int64_t pair = i % channels / 2 % half;
        int64_t position = token % x.dim(1) % table.dim(0);
        if (window > 0) position = token / x.dim(2) % x.dim(1) % window * window + token % x.dim(2) % window;
        const double cosine = static_cast<double>(at(table, (position * half + pair) * 2));
        const double sine = static_cast<double>(at(table, (position * half + pair) * 2 + 1));
        const double a = static_cast<double>(at(x, i));
        const double b = static_cast<double>(at(x, i + 1));
        out.data<float>()[i] = static_cast<float>(a * cosine - b * sine);
        out.data<float>()[i + 1] = static_cast<float>(a * sine + b * cosine);
    }
    return out;
}

class Rope : public test::SimdVariants {};

TEST_P(Rope, TurnsThePairsOfEveryHead) {
    struct Case {
        int64_t batch, tokens, positions;
        int heads;
        int64_t head_size;
    };
    for (const Case& c : {Case{1, 1, 1, 1, 2}, Case{2, 6, 3, 2, 10}, Case{1, 35, 35, 3, 64}, Case{2, 40, 20, 1, 256},
                          Case{1, 9, 9, 5, 22}}) {
        const Tensor x = random_tensor({c.batch, c.tokens, c.heads * c.head_size}, 1);
        const Tensor table = random_tensor({c.positions, c.head_size / 2, 2}, 2);
        const Tensor expected = reference(x, table, c.heads, 0);
        Ops(cpu(), 2).rope_2d_(x, table, c.heads);
        expect_close(x, expected, 1e-6);
    }
}

TEST_P(Rope, ALinearLayerIsRotatedAsItsResultIs) {
    const auto packed = cpu().pack_linear({{random_tensor({72, 10}, 5)}, {random_tensor({72}, 6)}}, Precision::f32);
    Ops ops(cpu(), 2);
    const Tensor table = random_tensor({9, 12, 2}, 4);
    const Tensor x = random_tensor({2, 6, 9, 10}, 3);
    const Tensor expected = ops.linear(x, *packed);
    ops.rope_2d_(expected.slice(-1, 0, 48), table, 2, 3);
    expect_equal(ops.linear_rotated(x, *packed, table, 2, 3), expected);
    EXPECT_THROW(ops.linear_rotated(x, *packed, table, 2, 4), Error);
    EXPECT_THROW(ops.linear_rotated(x, *packed, table, 4, 3), Error);  // more heads than there are channels
}

TEST_P(Rope, PositionsCountInsideAWindow) {
    const Tensor x = random_tensor({2, 6, 9, 2 * 24}, 3);
    const Tensor table = random_tensor({9, 12, 2}, 4);
    const Tensor expected = reference(x, table, 2, 3);
    Ops(cpu(), 2).rope_2d_(x, table, 2, 3);
    expect_close(x, expected, 1e-6);
}

TEST_P(Rope, ChangesOnlyTheSliceItIsGiven) {
    const Tensor all = random_tensor({1, 14, 3 * 32}, 5);
    const Tensor before = Ops(cpu(), 1).download(all);
    const Tensor table = random_tensor({14, 8, 2}, 6);
    const Tensor keys = all.slice(2, 32, 32);
    const Tensor expected = reference(keys, table, 2, 0);
    Ops(cpu(), 2).rope_2d_(keys, table, 2);
    expect_close(keys, expected, 1e-6);
    expect_equal(all.slice(2, 0, 32), before.slice(2, 0, 32));
    expect_equal(all.slice(2, 64, 32), before.slice(2, 64, 32));
}

TEST_P(Rope, ResultsDoNotDependOnTheNumberOfThreads) {
    const Tensor x = random_tensor({1, 300, 128}, 7);
    const Tensor y = Ops(cpu(), 1).upload(Ops(cpu(), 1).download(x));
    const Tensor table = random_tensor({300, 32, 2}, 8);
    Ops(cpu(), 1).rope_2d_(x, table, 2);
    Ops(cpu(), 3).rope_2d_(y, table, 2);
    expect_equal(y, x);
}

SAM3_TEST_SIMD_VARIANTS(Rope);

}  // namespace
}  // namespace sam3
