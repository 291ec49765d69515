#include "mask/rle.h"

#include "mask/geometry.h"
#include "mask/support.h"
#include "util/error.h"

#include <gtest/gtest.h>

namespace sam3 {
namespace {

using test::draw;

TEST(Rle, CocoStringsRoundTripByteForByte) {
    int checked = 0;
    for (auto& line : test::data_lines("mask/coco_rle.txt")) {
        int height = 0, width = 0;
        int64_t area = 0;
        CocoBox box;
        std::string text;
        line >> height >> width >> area >> box.x >> box.y >> box.width >> box.height >> text;
        ASSERT_FALSE(line.fail());
        const Rle rle = rle_from_string(text, width, height);
        EXPECT_EQ(rle_to_string(rle), text);
        EXPECT_EQ(rle_area(rle), area);
        EXPECT_EQ(rle_box(rle), box);
        const Mask mask = rle_decode(rle);
        EXPECT_EQ(mask_area(mask), area);
        EXPECT_EQ(rle_to_string(rle_encode(mask)), text);
        ++checked;
    }
    EXPECT_EQ(checked, 245);
}

TEST(Rle, CountsRunDownTheColumnsAndBeginWithZeros) {
    const Rle rle = rle_encode(draw({".#.", ".##"}));
    EXPECT_EQ(rle.counts, (std::vector<uint32_t>{2, 2, 1, 1}));
    EXPECT_EQ(rle_encode(draw({"#"})).counts, (std::vector<uint32_t>{0, 1}));
    EXPECT_EQ(rle_encode(draw({"."})).counts, (std::vector<uint32_t>{1}));
}

TEST(Rle, EveryMaskSurvivesEncoding) {
    for (const Mask& mask : test::many_masks()) {
        const Rle rle = rle_encode(mask);
        EXPECT_EQ(rle_decode(rle), mask);
        EXPECT_EQ(rle_from_string(rle_to_string(rle), mask.width, mask.height), rle);
        const PixelBox bounds = mask_bounds(mask);
        EXPECT_EQ(rle_box(rle), (CocoBox{bounds.x0, bounds.y0, bounds.x1 - bounds.x0, bounds.y1 - bounds.y0}));
    }
}

TEST(Rle, MergesAndOverlapsAsPixelsDo) {
    for (unsigned seed = 0; seed < 40; ++seed) {
        const Mask a = test::random_mask(13, 9, seed, 0.1 + 0.02 * seed);
        const Mask b = test::random_mask(13, 9, seed + 100, 0.4);
        Mask either(13, 9), both(13, 9);
        for (size_t i = 0; i < a.data.size(); ++i) {
            either.data[i] = a.data[i] | b.data[i];
            both.data[i] = a.data[i] & b.data[i];
        }
        const Rle ra = rle_encode(a), rb = rle_encode(b);
        EXPECT_EQ(rle_union(ra, rb), rle_encode(either));
        EXPECT_EQ(rle_intersection(ra, rb), rle_encode(both));
        const double expected = static_cast<double>(mask_area(both)) / static_cast<double>(mask_area(either));
        EXPECT_DOUBLE_EQ(rle_iou(ra, rb), expected);
        const double crowd = static_cast<double>(mask_area(both)) / static_cast<double>(mask_area(a));
        EXPECT_DOUBLE_EQ(rle_iou_crowd(ra, rb), crowd);
    }
    const Rle empty = rle_encode(Mask(4, 4));
    EXPECT_EQ(rle_iou(empty, empty), 0.0);
    EXPECT_EQ(rle_iou_crowd(empty, empty), 0.0);
    EXPECT_THROW(rle_iou(empty, rle_encode(Mask(4, 5))), Error);
}

TEST(Rle, SkipsEmptyRunsInTheMiddle) {
    const Rle odd = rle_from_counts({1, 1, 0, 2, 0, 0, 2}, 2, 3);
    const Mask mask = draw({".#", "#.", "#."});
    EXPECT_EQ(rle_decode(odd), mask);
    EXPECT_EQ(rle_union(odd, odd), rle_encode(mask));
    EXPECT_EQ(rle_box(odd), (CocoBox{0, 0, 2, 3}));
    EXPECT_EQ(rle_area(odd), 3);
}

TEST(Rle, HostileStringsAreRefusedWithASentence) {
    for (const std::string text :
         {" ", "\x7f", "o", "oooooooooooooooo0", "4oooooo", "\xff\xfe", "O", "0", "P", "5", "11111"})
        EXPECT_THROW(rle_from_string(text, 2, 2), Error) << text;
    EXPECT_THROW(rle_from_string("4", -1, 2), Error);
    EXPECT_THROW(rle_from_string("4", 100000, 100000), Error);
    EXPECT_EQ(rle_from_string("4", 2, 2).counts, (std::vector<uint32_t>{4}));
    EXPECT_THROW(rle_decode(Rle{3, 3, {4, 4}}), Error);
    EXPECT_THROW(rle_decode(Rle{3, 3, {0xFFFFFFFFU, 10}}), Error);
    std::mt19937 generator(1);
    for (int i = 0; i < 4000; ++i) {
        std::string text(generator() % 12, '0');
        for (char& c : text) c = static_cast<char>(generator() % 4 == 0 ? generator() % 256 : 48 + generator() % 64);
        try {
            const Rle rle = rle_from_string(text, 8, 8);
            EXPECT_EQ(rle_decode(rle).data.size(), 64U);
            EXPECT_LE(rle_box(rle).width, 8);
        } catch (const Error&) {
        }
    }
}

}  // namespace
}  // namespace sam3
