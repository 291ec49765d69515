#include "image/draw.h"

#include "image/font.h"
#include "image/support.h"
#include "util/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace sam3 {
namespace {

constexpr Color kRed{255, 0, 0};
constexpr Color kWhite{255, 255, 255};

std::vector<uint8_t> square_mask(int size, int from, int to) {
    std::vector<uint8_t> mask(static_cast<size_t>(size * size), 0);
    for (int y = from; y < to; ++y)
        for (int x = from; x < to; ++x) mask[static_cast<size_t>(y * size + x)] = 1;
    return mask;
}

int64_t changed_pixels(const Image& image) {
    int64_t count = 0;
    for (size_t i = 0; i < image.pixels.size(); i += 3)
        count += image.pixels[i] != 0 || image.pixels[i + 1] != 0 || image.pixels[i + 2] != 0;
    return count;
}

TEST(Draw, MasksMixWithTheImageWhereTheyAreSet) {
    Image image(10, 10, 3);
    std::fill(image.pixels.begin(), image.pixels.end(), uint8_t{100});
    blend_mask(image, square_mask(10, 2, 5), kRed, 0.5F);
    EXPECT_EQ(image.at(2, 2)[0], 178);
    EXPECT_EQ(image.at(2, 2)[1], 50);
    EXPECT_EQ(image.at(5, 5)[0], 100);
    blend_mask(image, square_mask(10, 2, 5), kWhite, 1.0F);
    EXPECT_EQ(image.at(4, 4)[2], 255);
    EXPECT_THROW(blend_mask(image, square_mask(9, 2, 5), kRed), Error);
}

TEST(Draw, ContoursFollowTheBorderAndNotTheFrame) {
    Image image(30, 30, 3);
    draw_contour(image, square_mask(30, 10, 20), kWhite, 2.0F);
    EXPECT_GT(image.at(10, 15)[0], 200);
    EXPECT_GT(image.at(15, 19)[0], 200);
    EXPECT_EQ(image.at(15, 15)[0], 0);
    EXPECT_EQ(image.at(5, 5)[0], 0);
    Image full(30, 30, 3);
    draw_contour(full, std::vector<uint8_t>(900, 1), kWhite);
    EXPECT_EQ(changed_pixels(full), 0);
}

TEST(Draw, BoxesHaveTheirThicknessAndAreClipped) {
    Image image(20, 20, 3);
    draw_box(image, 5, 5, 15, 12, kWhite, 2.0F);
    EXPECT_EQ(image.at(4, 8)[0], 255);
    EXPECT_EQ(image.at(5, 8)[0], 255);
    EXPECT_EQ(image.at(6, 8)[0], 0);
    EXPECT_EQ(image.at(3, 8)[0], 0);
    EXPECT_EQ(changed_pixels(image), 12 * 9 - 8 * 5);
    const float huge = std::numeric_limits<float>::max();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    EXPECT_NO_THROW(draw_box(image, -huge, -huge, huge, huge, kRed, 3.0F));
    EXPECT_NO_THROW(draw_box(image, nan, 0, 5, 5, kRed));
    EXPECT_NO_THROW(draw_disc(image, 1e30F, nan, huge, kRed));
    EXPECT_NO_THROW(draw_text(image, nan, -1e30F, "x", kRed, huge));
    EXPECT_NO_THROW(draw_label(image, huge, -huge, "label", kRed));
}

TEST(Draw, DiscsAreRound) {
    Image image(41, 41, 3);
    draw_disc(image, 20.5F, 20.5F, 15.0F, kWhite);
    EXPECT_EQ(image.at(20, 20)[0], 255);
    EXPECT_EQ(image.at(20, 2)[0], 0);
    double light = 0;
    for (const uint8_t value : image.pixels) light += value / 255.0 / 3;
    EXPECT_NEAR(light, 3.14159 * 225, 8);
}

double light_of(const Image& image) {
    double light = 0;
    for (size_t i = 0; i < image.pixels.size(); i += 3) light += image.pixels[i] / 255.0;
    return light;
}

TEST(Draw, LettersCoverTheAreaOfTheirOutlines) {
    for (const float size : {8.0F, 14.0F, 33.0F, 100.0F}) {
        Image image(120, 140, 3);
        draw_text(image, 5.3F, 2, "-", kWhite, size);  // a hyphen is a rectangle: 135 x 41 parts of 512
        EXPECT_NEAR(light_of(image), static_cast<double>(size * size) * 135 * 41 / 512 / 512,
                    0.06 * static_cast<double>(size))
            << size;
    }
    Image ring(120, 140, 3);
    draw_text(ring, 5, 2, "o", kWhite, 100);
    EXPECT_EQ(ring.at(36, 67)[0], 0) << "the hole of an o is empty";
    EXPECT_EQ(ring.at(12, 67)[0], 255) << "its left side is not";
}

TEST(Draw, TextIsAsWideAsItIsSaid) {
    Image image(200, 40, 3);
    draw_text(image, 0, 0, "Wide \xC3\xA9t\xC3\xA9 0.97", kWhite, 20);
    int last = 0;
    for (int y = 0; y < image.height; ++y)
        for (int x = 0; x < image.width; ++x)
            if (image.at(x, y)[0] > 0) last = std::max(last, x);
    const float width = text_width("Wide \xC3\xA9t\xC3\xA9 0.97", 20);
    EXPECT_LT(static_cast<float>(last), width);
    EXPECT_GT(static_cast<float>(last), width - 4);
    EXPECT_EQ(text_width(""), 0.0F);
}

TEST(Draw, EveryCharacterHasItsOwnShape) {
    std::set<std::vector<float>> shapes;
    for (char32_t code = 33; code < 127; ++code) shapes.insert(glyph_coverage(code, 0, 24).coverage);
    EXPECT_EQ(shapes.size(), 94U);
    EXPECT_TRUE(glyph_coverage(U' ', 0, 24).coverage.empty());
    EXPECT_EQ(glyph_coverage(0x4E00, 0, 24).coverage, glyph_coverage(U'\n', 0, 24).coverage);
    EXPECT_FALSE(glyph_coverage(0x4E00, 0, 24).coverage.empty());
}

TEST(Draw, LabelsStayInsideTheImage) {
    Image image(120, 40, 3);
    draw_label(image, 110, 35, "dog 0.97", kWhite);
    int64_t dark = 0;
    for (int y = 10; y < 40; ++y)
        for (int x = 20; x < 120; ++x) dark += image.at(x, y)[0] < 90;
    EXPECT_GT(changed_pixels(image), 1200);
    EXPECT_GT(dark, 300);  // black letters on the white plate
    EXPECT_THROW(
        {
            Image grey(4, 4, 1);
            draw_label(grey, 0, 0, "x", kRed);
        },
        Error);
}

TEST(Draw, PaletteColoursAreApart) {
    for (int a = 0; a < 24; ++a)
        for (int b = 0; b < a; ++b) {
            const Color p = palette_color(a), q = palette_color(b);
            const int distance = std::abs(p.r - q.r) + std::abs(p.g - q.g) + std::abs(p.b - q.b);
            EXPECT_GT(distance, 40) << a << " " << b;
        }
    EXPECT_NO_THROW(palette_color(-1));
}

}  // namespace
}  // namespace sam3
