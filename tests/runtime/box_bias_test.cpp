#include "support/operator_goldens.h"

#include "util/error.h"

#include <gtest/gtest.h>

namespace sam3 {
namespace {

using namespace sam3::test;

double log_distance(double distance) {
    const double magnitude = std::log2(std::abs(8 * distance) + 1) / 3;
    return distance < 0 ? -magnitude : magnitude;
}

struct Case {
    int64_t images, queries, channels, heads, height, width;
};

BoxBiasWeights random_weights(const Case& c, unsigned seed) {
    return {random_tensor({c.channels, 2}, seed), random_tensor({c.channels}, seed + 1),
            random_tensor({c.heads, c.channels}, seed + 2), random_tensor({c.heads}, seed + 3)};
}

// axis: 0 for the columns, 1 for the rows
double defined(const Tensor& boxes, const BoxBiasWeights& weights, int axis, int64_t box, int64_t head, double place) {
    const double centre = static_cast<double>(at(boxes, 4 * box + axis));
    const double half = static_cast<double>(at(boxes, 4 * box + 2 + axis)) / 2;
    const double near = log_distance(place - (centre - half));
    const double far = log_distance(place - (centre + half));
    const int64_t channels = weights.hidden_bias.dim(0);
    auto sum = static_cast<double>(at(weights.bias, head));
    for (int64_t k = 0; k < channels; ++k) {
        const double hidden = static_cast<double>(at(weights.hidden_weight, 2 * k)) * near +
                              static_cast<double>(at(weights.hidden_weight, 2 * k + 1)) * far +
                              static_cast<double>(at(weights.hidden_bias, k));
        sum += std::max(hidden, 0.0) * static_cast<double>(at(weights.weight, head * channels + k));
    }
    return sum;
}

TEST(BoxBias, EqualsItsDefinition) {
    for (const Case& c :
         {Case{1, 3, 5, 1, 7, 9}, Case{2, 4, 32, 8, 24, 16}, Case{1, 20, 256, 8, 72, 72}, Case{1, 2, 16, 11, 33, 5}}) {
        const Tensor boxes = random_tensor({c.images, c.queries, 9}, 1).slice(-1, 3, 4);  // with a stride
        const BoxBiasWeights weights[2] = {random_weights(c, 2), random_weights(c, 6)};
        for (int axis : {0, 1}) {
            const int64_t pixels = axis == 0 ? c.width : c.height;
            const Tensor out = run_with_threads([&](Ops& ops) {
                const AttentionOptions bias = ops.box_bias(boxes, weights[0], weights[1], c.height, c.width);
                return axis == 0 ? bias.bias_cols : bias.bias_rows;
            });
            ASSERT_EQ(out.shape(), Shape({c.images, c.heads, 1 + c.queries, pixels}));
            for (int64_t i = 0; i < out.numel(); ++i) {
                const int64_t pixel = i % pixels, query = i / pixels % (1 + c.queries);
                const int64_t head = i / pixels / (1 + c.queries) % c.heads;
                const int64_t image = i / pixels / (1 + c.queries) / c.heads;
                const double place = static_cast<double>(pixel) / static_cast<double>(pixels);
                const double wanted =
                    query == 0 ? 0 : defined(boxes, weights[axis], axis, image * c.queries + query - 1, head, place);
                ASSERT_NEAR(static_cast<double>(at(out, i)), wanted, 1e-4) << axis << ": " << i;
            }
        }
    }
}

TEST(BoxBias, RefusesLayersThatDoNotFit) {
    Ops ops(cpu(), 1);
    const BoxBiasWeights right = random_weights({1, 3, 4, 2, 8, 8}, 1);
    BoxBiasWeights wrong = right;
    wrong.weight = random_tensor({2, 5}, 3);
    const Tensor boxes = random_tensor({1, 3, 4}, 5);
    EXPECT_THROW(ops.box_bias(boxes, right, wrong, 8, 8), Error);
    EXPECT_THROW(ops.box_bias(boxes, wrong, right, 8, 8), Error);
    EXPECT_THROW(ops.box_bias(random_tensor({1, 3, 3}, 5), right, right, 8, 8), Error);
}

}  // namespace
}  // namespace sam3
