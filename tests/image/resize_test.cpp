#include "image/resize.h"

#include "image/support.h"
#include "util/error.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sam3 {
namespace {

struct Case {
    std::string style, filter;
    int channels = 0, contrast = 0, in_width = 0, in_height = 0, width = 0, height = 0;
    uint32_t seed = 0, crc = 0;

    ResizeOptions options(int threads) const {
        const auto known = style == "torchvision" ? ResizeStyle::torchvision
                           : style == "pillow"    ? ResizeStyle::pillow
                                                  : ResizeStyle::pillow_12;
        return {known, filter == "bicubic" ? ResizeFilter::bicubic : ResizeFilter::bilinear, threads};
    }
};

std::vector<Case> cases() {
    std::vector<Case> all;
    for (auto& line : test::data_lines("image/resize.txt")) {
        Case c;
        line >> c.style >> c.filter >> c.channels >> c.contrast >> c.in_width >> c.in_height >> c.width >> c.height >>
            c.seed >> c.crc;
        EXPECT_FALSE(line.fail()) << line.str();
        all.push_back(c);
    }
    return all;
}

TEST(Resize, EqualsTorchvisionAndPillowToTheBit) {
    const auto all = cases();
    ASSERT_EQ(all.size(), 522U);
    for (const Case& c : all) {
        const Image in = test::noise(c.in_width, c.in_height, c.channels, c.seed, c.contrast != 0);
        const Image out = resize(in, c.width, c.height, c.options(1));
        EXPECT_EQ(test::crc32(out.pixels), c.crc)
            << c.style << " " << c.filter << " " << c.channels << " channels, " << c.in_width << " x " << c.in_height
            << " to " << c.width << " x " << c.height;
    }
}

TEST(Resize, DoesNotDependOnTheThreads) {
    const Image in = test::noise(401, 299, 3, 5);
    for (const auto style : {ResizeStyle::torchvision, ResizeStyle::pillow}) {
        const Image one = resize(in, 133, 217, {style, ResizeFilter::bilinear, 1});
        for (const int threads : {0, 2, 3, 7})
            EXPECT_EQ(resize(in, 133, 217, {style, ResizeFilter::bilinear, threads}).pixels, one.pixels);
    }
}

TEST(Resize, KeepsAFlatImageFlat) {
    for (const uint8_t value : {0, 1, 127, 254, 255}) {
        Image in(57, 31, 3);
        std::fill(in.pixels.begin(), in.pixels.end(), value);
        for (const auto filter : {ResizeFilter::bilinear, ResizeFilter::bicubic}) {
            const Image out = resize(in, 20, 90, {ResizeStyle::torchvision, filter, 1});
            EXPECT_TRUE(std::all_of(out.pixels.begin(), out.pixels.end(), [&](uint8_t v) { return v == value; }));
        }
    }
}

TEST(Resize, StaysWithinOneStepOfTheRealNumberFilter) {
    const Image in = test::noise(90, 1, 1, 3);
    const Image out = resize(in, 31, 1);
    const double scale = 90.0 / 31.0;
    for (int x = 0; x < 31; ++x) {
        double sum = 0, total = 0;
        for (int i = 0; i < 90; ++i) {
            const double weight = std::max(0.0, 1.0 - std::abs((i + 0.5) / scale - (x + 0.5)));
            sum += weight * in.pixels[static_cast<size_t>(i)];
            total += weight;
        }
        EXPECT_NEAR(out.pixels[static_cast<size_t>(x)], sum / total, 0.51);
    }
}

TEST(Resize, RefusesEmptyAndInconsistentImages) {
    EXPECT_THROW(resize(Image(), 3, 3), Error);
    EXPECT_THROW(resize(test::noise(4, 4, 3, 1), 0, 3), Error);
    EXPECT_THROW(resize(test::noise(4, 4, 2, 1), 3, 3), Error);
    Image broken = test::noise(4, 4, 3, 1);
    broken.pixels.pop_back();
    EXPECT_THROW(resize(broken, 3, 3), Error);
}

}  // namespace
}  // namespace sam3
