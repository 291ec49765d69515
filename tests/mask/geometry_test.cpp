#include "mask/geometry.h"

#include "mask/support.h"
#include "util/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace sam3 {
namespace {

using test::draw;

TEST(Geometry, BoundsTouchTheOutermostPixels) {
    EXPECT_EQ(mask_bounds(draw({".....", "..#..", ".#...", "....."})), (PixelBox{1, 1, 3, 3}));
    EXPECT_EQ(mask_bounds(draw({"#..", "..#"})), (PixelBox{0, 0, 3, 2}));
    EXPECT_EQ(mask_bounds(Mask(4, 3)), PixelBox{});
    EXPECT_EQ(mask_bounds(Mask(0, 0)), PixelBox{});
}

// Pixel by pixel.
PixelBox plain_bounds(const Mask& mask) {
    PixelBox box{mask.width, mask.height, 0, 0};
    for (int y = 0; y < mask.height; ++y)
        for (int x = 0; x < mask.width; ++x)
            if (mask.at(x, y) != 0)
                box = {std::min(box.x0, x), std::min(box.y0, y), std::max(box.x1, x + 1), std::max(box.y1, y + 1)};
    return box.empty() ? PixelBox{} : box;
}

TEST(Geometry, BoundsAndOverlapsOfManySizesAreThoseOfSinglePixels) {
    for (const Mask& mask : test::many_masks()) EXPECT_EQ(mask_bounds(mask), plain_bounds(mask)) << mask.width;
    unsigned seed = 100;
    for (int width = 1; width < 40; ++width) {
        const std::vector<Mask> masks = {test::random_mask(width, 9, ++seed, 0.03),
                                         test::random_mask(width, 9, ++seed)};
        for (const Mask& mask : masks) EXPECT_EQ(mask_bounds(mask), plain_bounds(mask)) << width;
        EXPECT_EQ(mask_overlaps(masks, masks)[1], mask_overlap(masks[0], masks[1])) << width;
    }
    Mask single(29, 1);
    for (int x = 0; x < single.width; ++x) {
        single.data.assign(single.data.size(), 0);
        single.at(x, 0) = x % 2 == 0 ? 1 : 255;  // any value but 0 counts
        EXPECT_EQ(mask_bounds(single), (PixelBox{x, 0, x + 1, 1}));
        EXPECT_EQ(mask_overlaps({&single, 1}, {&single, 1}).front(), 1.0F);
    }
}

TEST(Geometry, OverlapsOfBoxes) {
    EXPECT_FLOAT_EQ(box_iou({0, 0, 2, 2}, {1, 0, 3, 2}), 1.0F / 3.0F);
    EXPECT_EQ(box_iou({0, 0, 1, 1}, {1, 0, 2, 1}), 0.0F);
    EXPECT_EQ(box_iou({0, 0, 0, 0}, {0, 0, 0, 0}), 0.0F);
}

TEST(Geometry, OverlapsOfMasks) {
    const Mask a = draw({"###.", "###."});
    const Mask b = draw({".#..", ".###"});
    EXPECT_FLOAT_EQ(mask_overlap(a, b), 3.0F / 7.0F);
    EXPECT_FLOAT_EQ(mask_overlap(a, b, Overlap::iom), 3.0F / 4.0F);
    EXPECT_EQ(mask_overlap(Mask(2, 2), Mask(2, 2)), 0.0F);
    EXPECT_EQ(mask_overlap(Mask(2, 2), Mask(2, 2), Overlap::iom), 0.0F);
    EXPECT_THROW(mask_overlap(a, Mask(3, 3)), Error);
}

TEST(Geometry, OverlapsOfAllPairsOfMasksAreThoseOfEachPair) {
    std::vector<Mask> masks;
    for (unsigned seed = 0; seed < 5; ++seed) masks.push_back(test::random_mask(13, 9, seed, 0.2 * seed));
    const std::span<const Mask> rows(masks.data(), 3);
    const std::vector<float> overlaps = mask_overlaps(rows, masks);
    for (size_t i = 0; i < rows.size(); ++i)
        for (size_t j = 0; j < masks.size(); ++j)
            EXPECT_EQ(overlaps[i * masks.size() + j], mask_overlap(rows[i], masks[j]));
    EXPECT_TRUE(mask_overlaps({}, masks).empty());
    EXPECT_THROW(mask_overlaps(rows, std::vector<Mask>{Mask(3, 3)}), Error);
}

TEST(Nms, KeepsWhatTorchvisionKeeps) {
    int checked = 0;
    for (auto& line : test::data_lines("mask/nms.txt")) {
        double threshold = 0;
        size_t count = 0, kept = 0;
        line >> threshold >> count;
        std::vector<Box> boxes(count);
        std::vector<float> scores(count);
        for (size_t i = 0; i < count; ++i)
            line >> boxes[i].x0 >> boxes[i].y0 >> boxes[i].x1 >> boxes[i].y1 >> scores[i];
        line >> kept;
        ASSERT_FALSE(line.fail());
        std::vector<int> expected(kept);
        for (int& index : expected) line >> index;
        EXPECT_EQ(nms_boxes(boxes, scores, threshold), expected) << threshold << " " << count;
        ++checked;
    }
    EXPECT_EQ(checked, 16);
}

TEST(Nms, MasksGoByScoreAndByEitherMeasure) {
    const std::vector<Mask> masks = {draw({"##....", "##...."}), draw({"######", "######"}), draw({"....##", "....##"}),
                                     draw({"##....", "##...."})};
    const std::vector<float> scores = {0.5F, 0.9F, 0.8F, 0.5F};
    EXPECT_EQ(nms_masks(masks, scores, 0.5F), (std::vector<int>{1, 2, 0}));
    EXPECT_EQ(nms_masks(masks, scores, 0.5F, Overlap::iom), (std::vector<int>{1}));
    EXPECT_EQ(nms_masks(masks, scores, 1.0F), (std::vector<int>{1, 2, 0, 3}));  // equal to the threshold: kept
    EXPECT_TRUE(nms_masks({}, {}, 0.5F).empty());
}

TEST(Nms, MasksAgreeWithAllPairsOnRandomOnes) {
    for (unsigned seed = 0; seed < 20; ++seed) {
        std::vector<Mask> masks;
        std::vector<float> scores;
        for (unsigned i = 0; i < 12; ++i) {
            masks.push_back(test::random_mask(11, 7, seed * 50 + i, 0.2 + 0.06 * i));
            scores.push_back(static_cast<float>((seed * 7 + i * 5) % 9));
        }
        for (const auto measure : {Overlap::iou, Overlap::iom}) {
            const auto kept = nms_masks(masks, scores, 0.4F, measure);
            for (size_t i = 0; i < masks.size(); ++i) {
                bool beaten = false;  // by a kept one that is better, or as good and earlier
                for (const int k : kept) {
                    const auto index = static_cast<size_t>(k);
                    const bool better = scores[index] > scores[i] || (scores[index] == scores[i] && index < i);
                    beaten = beaten || (better && mask_overlap(masks[index], masks[i], measure) > 0.4F);
                }
                EXPECT_EQ(std::find(kept.begin(), kept.end(), static_cast<int>(i)) == kept.end(), beaten);
            }
        }
    }
}

TEST(Nms, BadScoresNeitherCrashNorPass) {
    const std::vector<Box> boxes = {{0, 0, 1, 1}, {5, 5, 6, 6}, {9, 9, 9, 9}};
    const float nan = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(nms_boxes(boxes, std::vector<float>{nan, 1.0F, nan}, 0.5), (std::vector<int>{1, 0, 2}));
    EXPECT_THROW(nms_boxes(boxes, std::vector<float>{1.0F}, 0.5), Error);
    EXPECT_THROW(nms_masks(std::vector<Mask>{Mask(1, 1), Mask(2, 2)}, std::vector<float>{1, 1}, 0.5F), Error);
}

}  // namespace
}  // namespace sam3
