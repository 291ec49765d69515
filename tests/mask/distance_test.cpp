#include "mask/distance.h"

#include "mask/rle.h"
#include "mask/support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace sam3 {
namespace {

int64_t nearest(const Mask& targets, int x, int y) {
    int64_t best = std::numeric_limits<int64_t>::max();
    for (int v = 0; v < targets.height; ++v)
        for (int u = 0; u < targets.width; ++u)
            if (targets.at(u, v) != 0)
                best = std::min<int64_t>(best, int64_t{u - x} * (u - x) + int64_t{v - y} * (v - y));
    return best;
}

TEST(Distance, EqualsTheNearestOfAllPixels) {
    std::vector<Mask> masks = test::many_masks();
    for (unsigned seed = 0; seed < 8; ++seed) masks.push_back(test::random_mask(31, 17, seed, 0.01));
    for (const Mask& mask : masks) {
        const std::vector<int64_t> distances = squared_distances(mask);
        const int64_t far = int64_t{mask.width + mask.height} * (mask.width + mask.height);
        for (int y = 0; y < mask.height; ++y)
            for (int x = 0; x < mask.width; ++x) {
                const int64_t expected = nearest(mask, x, y);
                if (expected == std::numeric_limits<int64_t>::max())
                    EXPECT_GE(distances[mask.index(x, y)], far);
                else
                    EXPECT_EQ(distances[mask.index(x, y)], expected);
            }
    }
}

TEST(Distance, TheLargestCircleEndsAtTheBorderOfThePicture) {
    Mask full(7, 5);
    std::fill(full.data.begin(), full.data.end(), uint8_t{1});
    const auto circle = largest_inner_circle(full);
    ASSERT_TRUE(circle);
    EXPECT_EQ(circle->x, 2);  // the first of three
    EXPECT_EQ(circle->y, 2);
    EXPECT_EQ(circle->squared_radius, 9);
    EXPECT_FALSE(largest_inner_circle(Mask(7, 5)));
    EXPECT_FALSE(largest_inner_circle(Mask()));
}

}  // namespace
}  // namespace sam3
