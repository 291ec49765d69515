#include "mask/polygon.h"

#include "mask/components.h"
#include "mask/support.h"
#include "util/error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sam3 {
namespace {

using test::draw;

TEST(Polygon, EveryMaskComesBackFromItsOutline) {
    for (const Mask& mask : test::many_masks()) {
        const auto polygons = mask_to_polygons(mask);
        EXPECT_EQ(polygons.size(), static_cast<size_t>(label_components(mask, Connectivity::four).count()));
        EXPECT_EQ(rasterize(polygons, mask.width, mask.height), mask);
        double area = 0;
        for (const Polygon& polygon : polygons) {
            EXPECT_GT(ring_area(polygon.outer), 0);
            area += ring_area(polygon.outer);
            for (const Ring& hole : polygon.holes) {
                EXPECT_LT(ring_area(hole), 0);
                area += ring_area(hole);
            }
        }
        EXPECT_EQ(area, static_cast<double>(mask_area(mask)));
    }
}

TEST(Polygon, ARectangleHasFourCorners) {
    const auto polygons = mask_to_polygons(draw({"....", ".##.", ".##.", "...."}));
    ASSERT_EQ(polygons.size(), 1U);
    EXPECT_EQ(polygons[0].outer, (Ring{{3, 1}, {3, 3}, {1, 3}, {1, 1}}));
    EXPECT_TRUE(polygons[0].holes.empty());
}

TEST(Polygon, HolesBelongToTheirRegion) {
    const auto polygons =
        mask_to_polygons(draw({"#####", "#...#", "#.#.#", "#...#", "#####", ".....", "###..", "#.#..", "###.."}));
    ASSERT_EQ(polygons.size(), 3U);
    EXPECT_EQ(polygons[0].holes.size(), 1U);
    EXPECT_EQ(polygons[1].holes.size(), 0U);  // the dot inside the first ring
    EXPECT_EQ(polygons[2].holes.size(), 1U);
}

TEST(Polygon, SimplifyingStaysCloseAndDropsCorners) {
    Mask disc(101, 101);
    for (int y = 0; y < 101; ++y)
        for (int x = 0; x < 101; ++x) disc.at(x, y) = std::hypot(x - 50, y - 50) < 40 && std::hypot(x - 50, y - 40) > 8;
    const auto exact = mask_to_polygons(disc);
    const auto simple = mask_to_polygons(disc, 1.0F);
    ASSERT_EQ(simple.size(), 1U);
    ASSERT_EQ(simple[0].holes.size(), 1U);
    EXPECT_LT(simple[0].outer.size() * 4, exact[0].outer.size());
    const Mask back = rasterize(simple, 101, 101);
    int64_t different = 0;
    for (size_t i = 0; i < disc.data.size(); ++i) different += back.data[i] != disc.data[i];
    EXPECT_LT(different, 2 * 3.2 * 48);  // less than the outline times the tolerance
    EXPECT_GE(mask_to_polygons(disc, 1000.0F)[0].outer.size(), 3U);
}

TEST(Polygon, RasterizesBetweenThePixelsAndOutsideTheFrame) {
    const std::vector<Polygon> triangle = {{{{0, 0}, {4, 0}, {0, 4}}, {}}};
    EXPECT_EQ(rasterize(triangle, 4, 4), draw({"###.", "##..", "#...", "...."}));
    const std::vector<Polygon> far = {{{{-1e30F, -1e30F}, {1e30F, -1e30F}, {1e30F, 1e30F}, {-1e30F, 1e30F}}, {}}};
    EXPECT_EQ(mask_area(rasterize(far, 5, 3)), 15);
    const std::vector<Polygon> two = {{{{0, 0}, {2, 0}, {2, 1}, {0, 1}}, {}}, {{{1, 0}, {3, 0}, {3, 1}, {1, 1}}, {}}};
    EXPECT_EQ(rasterize(two, 3, 1), draw({"###"}));  // united, not cancelled
}

TEST(Polygon, RefusesWhatIsNotANumberAndIgnoresLines) {
    const std::vector<Polygon> bad = {{{{0, 0}, {std::numeric_limits<float>::quiet_NaN(), 1}, {1, 1}}, {}}};
    EXPECT_THROW(rasterize(bad, 3, 3), Error);
    const std::vector<Polygon> line = {{{{0, 0}, {3, 3}}, {}}, {{}, {}}};
    EXPECT_EQ(mask_area(rasterize(line, 3, 3)), 0);
    EXPECT_THROW(rasterize({}, -1, 3), Error);
}

// Formats without holes and parts get one ring with slits, which must not cost a pixel.
TEST(Polygon, OneRingCoversTheSamePixels) {
    for (const Mask& mask : test::many_masks()) {
        const std::vector<Polygon> polygons = mask_to_polygons(mask);
        const Polygon joined{joined_ring(polygons), {}};
        EXPECT_EQ(rasterize({&joined, 1}, mask.width, mask.height), mask) << mask.width << " x " << mask.height;
    }
    EXPECT_TRUE(joined_ring({}).empty());
}

}  // namespace
}  // namespace sam3
