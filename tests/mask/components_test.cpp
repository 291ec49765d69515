#include "mask/components.h"

#include "mask/support.h"
#include "util/error.h"

#include <gtest/gtest.h>

namespace sam3 {
namespace {

using test::draw;

// One flood fill after the other, in raster order.
Components flood(const Mask& mask, Connectivity connectivity) {
    Components out{mask.width, mask.height, std::vector<int32_t>(mask.data.size(), 0), {0}};
    for (int y = 0; y < mask.height; ++y)
        for (int x = 0; x < mask.width; ++x) {
            if (mask.at(x, y) == 0) ++out.areas[0];
            if (mask.at(x, y) == 0 || out.labels[mask.index(x, y)] != 0) continue;
            const auto label = static_cast<int32_t>(out.areas.size());
            out.areas.push_back(0);
            std::vector<std::pair<int, int>> stack{{x, y}};
            while (!stack.empty()) {
                const auto [u, v] = stack.back();
                stack.pop_back();
                if (u < 0 || v < 0 || u >= mask.width || v >= mask.height) continue;
                if (mask.at(u, v) == 0 || out.labels[mask.index(u, v)] != 0) continue;
                out.labels[mask.index(u, v)] = label;
                ++out.areas.back();
                for (int dy = -1; dy <= 1; ++dy)
                    for (int dx = -1; dx <= 1; ++dx)
                        if (connectivity == Connectivity::eight || dx == 0 || dy == 0)
                            stack.emplace_back(u + dx, v + dy);
            }
        }
    return out;
}

TEST(Components, EqualAFloodFill) {
    for (const Mask& mask : test::many_masks())
        for (const auto connectivity : {Connectivity::four, Connectivity::eight}) {
            const Components found = label_components(mask, connectivity);
            const Components expected = flood(mask, connectivity);
            EXPECT_EQ(found.labels, expected.labels);
            EXPECT_EQ(found.areas, expected.areas);
        }
}

TEST(Components, SpiralsAreOneRegion) {
    const Mask spiral =
        draw({"#########", "#.......#", "#.#####.#", "#.#...#.#", "#.#.#.#.#", "#.#.###.#", "#.#.....#", "#.#######"});
    EXPECT_EQ(label_components(spiral, Connectivity::four).count(), 1);
    EXPECT_EQ(label_components(draw({"#.", ".#"}), Connectivity::four).count(), 2);
    EXPECT_EQ(label_components(draw({"#.", ".#"}), Connectivity::eight).count(), 1);
}

TEST(SmallRegions, HolesBelowTheAreaAreFilled) {
    Mask mask = draw({"#####..", "#.#..##", "#######", "#######"});
    EXPECT_TRUE(fill_small_holes(mask, 2));  // only the single pixel: the corner joins the pair diagonally into 4
    EXPECT_EQ(mask, draw({"#####..", "###..##", "#######", "#######"}));
    EXPECT_FALSE(fill_small_holes(mask, 4));
    EXPECT_TRUE(fill_small_holes(mask, 5));  // touching the border does not save a hole
    EXPECT_EQ(mask_area(mask), 28);
}

TEST(SmallRegions, IslandsBelowTheAreaGoButTheLargestStays) {
    const Mask mask = draw({"##..#", "#....", "...##"});
    Mask some = mask;
    EXPECT_TRUE(remove_small_islands(some, 2));
    EXPECT_EQ(some, draw({"##...", "#....", "...##"}));
    EXPECT_FALSE(remove_small_islands(some, 2));
    Mask none = mask;
    EXPECT_TRUE(remove_small_islands(none, 100));
    EXPECT_EQ(none, draw({"##...", "#....", "....."}));
    Mask empty(3, 3);
    EXPECT_FALSE(remove_small_islands(empty, 5));
}

TEST(SmallRegions, LogitsGetATenthOnTheOtherSide) {
    std::vector<float> logits = {5, 5,  5, -9, 5,  //
                                 5, -3, 5, -9, 5,  //
                                 5, 5,  5, -9, 0};
    auto filled = logits;
    fill_holes_in_logits(filled, 5, 3, 1);
    EXPECT_FLOAT_EQ(filled[6], 0.1F);
    EXPECT_FLOAT_EQ(filled[3], -9.0F);
    EXPECT_FLOAT_EQ(filled[14], 0.0F);  // joined to the -9 column
    fill_holes_in_logits(filled, 5, 3, 4);
    EXPECT_FLOAT_EQ(filled[14], 0.1F);

    auto cleaned = logits;
    remove_sprinkles_in_logits(cleaned, 5, 3, 2);
    EXPECT_FLOAT_EQ(cleaned[4], -0.1F);
    EXPECT_FLOAT_EQ(cleaned[0], 5.0F);
    std::vector<float> tiny = {-1, 2, -1, -1};  // the only object is never a sprinkle
    remove_sprinkles_in_logits(tiny, 4, 1, 10);
    EXPECT_FLOAT_EQ(tiny[1], 2.0F);
    auto same = logits;
    fill_holes_in_logits(same, 5, 3, 0);
    EXPECT_EQ(same, logits);
    EXPECT_THROW(fill_holes_in_logits(same, 5, 4, 3), Error);
}

}  // namespace
}  // namespace sam3
