#include "image/normalize.h"

#include "image/resize.h"
#include "image/support.h"
#include "util/error.h"

#include <gtest/gtest.h>

namespace sam3 {
namespace {

const Normalization kImageNet{{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}};

// From a photograph to the network's input, as transformers' processors do it.
TEST(Normalize, EqualsTheProcessorsOfTransformersToTheBit) {
    int checked = 0;
    for (auto& line : test::data_lines("image/processor.txt")) {
        std::string name;
        int in_width = 0, in_height = 0, side = 0, width = 0, height = 0;
        uint32_t seed = 0, crc = 0;
        line >> name >> in_width >> in_height >> side >> width >> height >> seed >> crc;
        ASSERT_FALSE(line.fail());
        const bool sam1 = name == "sam1";
        const Size fit = sam1 ? fit_longest_side({in_width, in_height}, side) : Size{side, side};
        const Image image = resize(test::noise(in_width, in_height, 3, seed), fit.width, fit.height);
        std::vector<float> out(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
        normalize_image(image, sam1 ? kImageNet : Normalization(), {width, height}, out.data());
        EXPECT_EQ(test::crc32(out), crc) << line.str();
        ++checked;
    }
    EXPECT_EQ(checked, 8);
}

TEST(Normalize, PadsTheRightAndTheBottomWithZero) {
    Image image(2, 1, 3);
    image.pixels = {255, 0, 255, 0, 255, 0};
    std::vector<float> out(3 * 2 * 3, 9.0F);
    normalize_image(image, {}, {3, 2}, out.data(), 1);
    const std::vector<float> expected = {1, -1, 1, -1, 1, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    EXPECT_EQ(out, expected);
}

TEST(Normalize, DoesNotDependOnTheThreads) {
    const Image image = test::noise(77, 55, 3, 1);
    EXPECT_EQ(normalize_image(image, kImageNet, 1), normalize_image(image, kImageNet, 3));
}

TEST(Normalize, RefusesGreyImagesAndTooSmallAFrame) {
    std::vector<float> out(1000);
    EXPECT_THROW(normalize_image(test::noise(2, 2, 1, 1), {}, {2, 2}, out.data()), Error);
    EXPECT_THROW(normalize_image(test::noise(2, 2, 3, 1), {}, {1, 2}, out.data()), Error);
    EXPECT_THROW(normalize_image(test::noise(2, 2, 3, 1), {{0, 0, 0}, {0, 0, 0}}, {2, 2}, out.data()), Error);
}

TEST(Normalize, FitsTheLongestSideAsSam1Does) {
    const Size wide = fit_longest_side({1800, 1200}, 1024);
    EXPECT_EQ(wide.width, 1024);
    EXPECT_EQ(wide.height, 683);
    const Size thin = fit_longest_side({4000, 1}, 1024);
    EXPECT_EQ(thin.height, 1);
}

}  // namespace
}  // namespace sam3
