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

TEST(BoxBias, EqualsItsDefinition) {
    struct Case {
        int64_t images, queries, channels, heads, pixels;
    };
    for (const Case& c :
         {Case{1, 3, 5, 1, 7}, Case{2, 4, 32, 8, 24}, Case{1, 20, 256, 8, 72}, Case{1, 2, 16, 11, 33}}) {
        const Tensor boxes = random_tensor({c.images, c.queries, 4}, 1);
        const Tensor edges = boxes.slice(-1, 2, 2);  // with a stride
        const BoxBiasWeights weights{random_tensor({c.channels, 2}, 2), random_tensor({c.channels}, 3),
                                     random_tensor({c.heads, c.channels}, 4), random_tensor({c.heads}, 5)};
        const Tensor out = run_with_threads([&](Ops& ops) { return ops.box_bias(edges, weights, c.pixels); });
        ASSERT_EQ(out.shape(), Shape({c.images, c.heads, 1 + c.queries, c.pixels}));
        for (int64_t i = 0; i < out.numel(); ++i) {
            const int64_t pixel = i % c.pixels, query = i / c.pixels % (1 + c.queries);
            const int64_t head = i / c.pixels / (1 + c.queries) % c.heads;
            const int64_t image = i / c.pixels / (1 + c.queries) / c.heads;
            double wanted = 0;
            if (query > 0) {
                const double place = static_cast<double>(pixel) / static_cast<double>(c.pixels);
                const int64_t box = (image * c.queries + query - 1) * 2;
                const double near = log_distance(place - static_cast<double>(at(edges, box)));
                const double far = log_distance(place - static_cast<double>(at(edges, box + 1)));
                wanted = static_cast<double>(at(weights.bias, head));
                for (int64_t k = 0; k < c.channels; ++k) {
                    const double hidden = static_cast<double>(at(weights.hidden_weight, 2 * k)) * near +
                                          static_cast<double>(at(weights.hidden_weight, 2 * k + 1)) * far +
                                          static_cast<double>(at(weights.hidden_bias, k));
                    wanted += std::max(hidden, 0.0) * static_cast<double>(at(weights.weight, head * c.channels + k));
                }
            }
            ASSERT_NEAR(static_cast<double>(at(out, i)), wanted, 1e-4) << i;
        }
    }
}

TEST(BoxBias, RefusesLayersThatDoNotFit) {
    Ops ops(cpu(), 1);
    const BoxBiasWeights weights{random_tensor({4, 2}, 1), random_tensor({4}, 2), random_tensor({2, 5}, 3),
                                 random_tensor({2}, 4)};
    EXPECT_THROW(ops.box_bias(random_tensor({1, 3, 2}, 5), weights, 8), Error);
    EXPECT_THROW(ops.box_bias(random_tensor({1, 3, 3}, 5), weights, 8), Error);
}

}  // namespace
}  // namespace sam3
