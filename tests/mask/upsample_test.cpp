#include "mask/upsample.h"

#include "mask/support.h"
#include "util/error.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sam3 {
namespace {

TEST(Upsample, EqualsTorchInterpolate) {
    int checked = 0;
    for (auto& line : test::data_lines("mask/upsample.txt")) {
        int in_width = 0, in_height = 0, width = 0, height = 0;
        uint32_t seed = 0;
        line >> in_width >> in_height >> width >> height >> seed;
        const auto logits = test::noise_logits(in_width, in_height, seed);
        const auto values = upsample_bilinear({logits.data(), in_width, in_height}, width, height);
        for (const float value : values) {
            float expected = 0;
            line >> expected;
            EXPECT_NEAR(value, expected, 1e-6F * std::max(1.0F, std::abs(expected))) << in_width << " to " << width;
        }
        ASSERT_FALSE(line.fail());
        ++checked;
    }
    EXPECT_EQ(checked, 7);
}

TEST(Upsample, ThresholdsAsTheReferenceDoesInBothOrders) {
    int checked = 0;
    for (auto& line : test::data_lines("mask/masks.txt")) {
        std::string kind, bits;
        int in_width = 0, in_height = 0, width = 0, height = 0;
        uint32_t seed = 0;
        line >> kind >> in_width >> in_height >> width >> height >> seed >> bits;
        ASSERT_FALSE(line.fail());
        const auto logits = test::noise_logits(in_width, in_height, seed);
        UpsampleOptions options;
        options.sigmoid_first = kind == "sigmoid_first";
        options.threshold = options.sigmoid_first ? 0.5F : 0.0F;
        const Mask mask = upsample_mask({logits.data(), in_width, in_height}, width, height, options);
        int different = 0;
        for (size_t i = 0; i < mask.data.size(); ++i) {
            const int byte = std::stoi(bits.substr(i / 8 * 2, 2), nullptr, 16);
            different += mask.data[i] != (byte >> (7 - i % 8) & 1);
        }
        EXPECT_LE(different, 1) << kind << " " << width << " x " << height;  // a value within rounding of the threshold
        ++checked;
    }
    EXPECT_EQ(checked, 6);
}

TEST(Upsample, StabilityIsCountedAtTheSizeOfTheImage) {
    const auto logits = test::noise_logits(19, 14, 5);
    const FloatMap map{logits.data(), 19, 14};
    for (const auto& [width, height] : std::vector<std::pair<int, int>>{{19, 14}, {301, 257}, {7, 5}}) {
        const StableMask found = upsample_stable_mask(map, width, height, 1.5F, 3);
        EXPECT_EQ(found.mask, upsample_mask(map, width, height));
        const auto above = [&](float threshold) {
            return static_cast<float>(mask_area(upsample_mask(map, width, height, {.threshold = threshold})));
        };
        EXPECT_EQ(found.stability, above(1.5F) / above(-1.5F)) << width << " x " << height;
    }
    const std::vector<float> low(4, -9.0F);
    EXPECT_EQ(upsample_stable_mask({low.data(), 2, 2}, 5, 5, 1.0F).stability, 0.0F);
}

TEST(Upsample, MaskIsTheThresholdedMap) {
    const auto logits = test::noise_logits(19, 14, 3);
    const FloatMap map{logits.data(), 19, 14};
    for (const auto& [width, height] :
         std::vector<std::pair<int, int>>{{19, 14}, {40, 50}, {301, 257}, {7, 5}, {1, 1}}) {
        const auto values = upsample_bilinear(map, width, height, 1);
        const Mask mask = upsample_mask(map, width, height, {1.5F, false, 1});
        for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(mask.data[i] != 0, values[i] > 1.5F);
    }
}

TEST(Upsample, DoesNotDependOnTheThreads) {
    const auto logits = test::noise_logits(36, 36, 5);
    const FloatMap map{logits.data(), 36, 36};
    const Mask one = upsample_mask(map, 413, 311, {0.0F, true, 1});
    const auto values = upsample_bilinear(map, 413, 311, 1);
    for (const int threads : {0, 2, 3, 5}) {
        EXPECT_EQ(upsample_mask(map, 413, 311, {0.0F, true, threads}), one);
        EXPECT_EQ(upsample_bilinear(map, 413, 311, threads), values);
    }
}

TEST(Upsample, SkipsPaddingByTheStride) {
    const auto padded = test::noise_logits(12, 8, 2);
    std::vector<float> cropped;
    for (size_t y = 0; y < 6; ++y)
        for (size_t x = 0; x < 9; ++x) cropped.push_back(padded[y * 12 + x]);
    EXPECT_EQ(upsample_bilinear({padded.data(), 9, 6, 12}, 30, 20), upsample_bilinear({cropped.data(), 9, 6}, 30, 20));
}

TEST(Upsample, RefusesEmptyMaps) {
    const float value = 1.0F;
    EXPECT_THROW(upsample_bilinear({nullptr, 1, 1}, 2, 2), Error);
    EXPECT_THROW(upsample_bilinear({&value, 0, 1}, 2, 2), Error);
    EXPECT_THROW(upsample_mask({&value, 1, 1}, 0, 2), Error);
    EXPECT_THROW(upsample_mask({&value, 1, 1, -3}, 2, 2), Error);
}

}  // namespace
}  // namespace sam3
