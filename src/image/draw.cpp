#include "image/draw.h"

#include "image/font.h"
#include "util/error.h"
#include "util/utf8.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace sam3 {
namespace {

void check_canvas(const Image& image) {
    check_image(image);
    if (image.channels != 3) fail("expected an RGB image to draw on, found ", image.channels, " channel(s)");
}

void check_mask(const Image& image, std::span<const uint8_t> mask) {
    check_canvas(image);
    const size_t expected = static_cast<size_t>(image.width) * static_cast<size_t>(image.height);
    if (mask.size() != expected)
        fail("expected a mask of the image's ", image.width, " x ", image.height, " pixels, found ", mask.size(),
             " bytes");
}

// weight 0: the pixel stays, 256: it becomes the colour.
void mix(uint8_t* pixel, Color color, int weight) {
    const int source[3] = {color.r, color.g, color.b};
    for (int c = 0; c < 3; ++c)
        pixel[c] = static_cast<uint8_t>((pixel[c] * (256 - weight) + source[c] * weight + 128) >> 8);
}

int to_weight(float coverage) { return static_cast<int>(std::clamp(coverage, 0.0F, 1.0F) * 256.0F + 0.5F); }

// The range of pixels whose area meets [from, to), inside [0, size); safe for any float, NaN gives an empty range.
struct Span {
    int begin = 0, end = 0;
};
Span pixel_span(float from, float to, int size) {
    if (!(from < to)) return {};
    const float limit = static_cast<float>(size);
    const float low = std::clamp(std::floor(from), 0.0F, limit);
    const float high = std::clamp(std::ceil(to), 0.0F, limit);
    return {static_cast<int>(low), static_cast<int>(high)};
}

// How much of pixel i lies in [from, to).
float covered(int i, float from, float to) {
    const float left = static_cast<float>(i);
    return std::clamp(std::min(to, left + 1.0F) - std::max(from, left), 0.0F, 1.0F);
}

void fill_rectangle(Image& image, float x0, float y0, float x1, float y1, Color color, float alpha = 1.0F) {
    const Span xs = pixel_span(x0, x1, image.width);
    const Span ys = pixel_span(y0, y1, image.height);
    for (int y = ys.begin; y < ys.end; ++y)
        for (int x = xs.begin; x < xs.end; ++x)
            mix(image.at(x, y), color, to_weight(covered(x, x0, x1) * covered(y, y0, y1) * alpha));
}

// Coverage of the pixels around one centre by a disc with a soft rim.
struct Stamp {
    int reach;
    std::vector<uint8_t> weights;  // (2 reach + 1)^2, 255: fully inside

    explicit Stamp(float radius) : reach(static_cast<int>(std::ceil(radius))) {
        for (int dy = -reach; dy <= reach; ++dy)
            for (int dx = -reach; dx <= reach; ++dx) {
                const float distance = std::sqrt(static_cast<float>(dx * dx + dy * dy));
                weights.push_back(static_cast<uint8_t>(std::clamp(radius + 0.5F - distance, 0.0F, 1.0F) * 255.0F));
            }
    }

    void press(std::vector<uint8_t>& coverage, int width, int height, int x, int y) const {
        const int side = 2 * reach + 1;
        for (int v = std::max(0, y - reach); v <= std::min(height - 1, y + reach); ++v)
            for (int u = std::max(0, x - reach); u <= std::min(width - 1, x + reach); ++u) {
                uint8_t& at = coverage[static_cast<size_t>(v) * static_cast<size_t>(width) + static_cast<size_t>(u)];
                at = std::max(at, weights[static_cast<size_t>(v - y + reach) * static_cast<size_t>(side) +
                                          static_cast<size_t>(u - x + reach)]);
            }
    }
};

constexpr float kSmallestText = 1, kLargestText = 1000;  // pixels

bool is_text_size(float size) { return size >= kSmallestText && size <= kLargestText; }

Color from_hsv(float hue, float saturation, float value) {
    const auto channel = [=](float offset) {
        const float k = std::fmod(offset + hue * 6.0F, 6.0F);
        const float level = value - value * saturation * std::clamp(std::min(k, 4.0F - k), 0.0F, 1.0F);
        return static_cast<uint8_t>(level * 255.0F + 0.5F);
    };
    return {channel(5.0F), channel(3.0F), channel(1.0F)};
}

}  // namespace

Color palette_color(int id) {
    // Chosen to be told apart on photographs; then the golden angle walks the hues, in three shades.
    static constexpr std::array<Color, 12> kFirst = {{{0, 164, 255},
                                                      {255, 92, 56},
                                                      {52, 211, 102},
                                                      {255, 196, 0},
                                                      {188, 92, 255},
                                                      {0, 224, 208},
                                                      {255, 72, 156},
                                                      {148, 220, 20},
                                                      {84, 104, 255},
                                                      {255, 144, 32},
                                                      {232, 60, 224},
                                                      {144, 196, 255}}};
    const auto index = static_cast<unsigned>(id);
    if (index < kFirst.size()) return kFirst[index];
    const double turns = 0.6180339887498949 * (index - static_cast<unsigned>(kFirst.size())) + 0.65;
    static constexpr std::array<std::array<float, 2>, 3> kShades = {{{0.85F, 1.0F}, {0.55F, 0.95F}, {0.9F, 0.72F}}};
    const auto& shade = kShades[index % kShades.size()];
    return from_hsv(static_cast<float>(turns - std::floor(turns)), shade[0], shade[1]);
}

void blend_mask(Image& image, std::span<const uint8_t> mask, Color color, float alpha) {
    check_mask(image, mask);
    const int weight = to_weight(alpha);
    for (size_t i = 0; i < mask.size(); ++i)
        if (mask[i] != 0) mix(image.pixels.data() + i * 3, color, weight);
}

void draw_contour(Image& image, std::span<const uint8_t> mask, Color color, float thickness) {
    check_mask(image, mask);
    const int width = image.width;
    const int height = image.height;
    const Stamp stamp(std::clamp(thickness, 1.0F, 64.0F) * 0.5F);
    std::vector<uint8_t> coverage(mask.size(), 0);
    for (int y = 0; y < height; ++y) {
        const uint8_t* row = mask.data() + static_cast<size_t>(y) * static_cast<size_t>(width);
        for (int x = 0; x < width; ++x) {
            if (row[x] == 0) continue;
            const bool border = (x > 0 && row[x - 1] == 0) || (x + 1 < width && row[x + 1] == 0) ||
                                (y > 0 && row[x - width] == 0) || (y + 1 < height && row[x + width] == 0);
            if (border) stamp.press(coverage, width, height, x, y);
        }
    }
    for (size_t i = 0; i < coverage.size(); ++i)
        if (coverage[i] != 0) mix(image.pixels.data() + i * 3, color, coverage[i] + (coverage[i] >> 7));
}

void draw_box(Image& image, float x0, float y0, float x1, float y1, Color color, float thickness) {
    check_canvas(image);
    if (!(x0 <= x1) || !(y0 <= y1)) return;
    const float half = std::max(thickness, 1.0F) * 0.5F;
    fill_rectangle(image, x0 - half, y0 - half, x1 + half, y0 + half, color);
    fill_rectangle(image, x0 - half, y1 - half, x1 + half, y1 + half, color);
    fill_rectangle(image, x0 - half, y0 + half, x0 + half, y1 - half, color);
    fill_rectangle(image, x1 - half, y0 + half, x1 + half, y1 - half, color);
}

void draw_disc(Image& image, float x, float y, float radius, Color color) {
    check_canvas(image);
    const Span xs = pixel_span(x - radius - 1.0F, x + radius + 1.0F, image.width);
    const Span ys = pixel_span(y - radius - 1.0F, y + radius + 1.0F, image.height);
    for (int py = ys.begin; py < ys.end; ++py)
        for (int px = xs.begin; px < xs.end; ++px) {
            const float distance = std::hypot(static_cast<float>(px) + 0.5F - x, static_cast<float>(py) + 0.5F - y);
            mix(image.at(px, py), color, to_weight(radius + 0.5F - distance));
        }
}

void draw_text(Image& image, float x, float y, std::string_view text, Color color, float size) {
    check_canvas(image);
    constexpr float kFarthest = 1e6F;  // positions beyond are outside of every image
    if (!is_text_size(size) || !(std::abs(x) < kFarthest) || !(std::abs(y) < kFarthest)) return;
    const int top = static_cast<int>(std::lround(y));
    for (const char32_t character : unicode::from_utf8(text)) {
        if (x > static_cast<float>(image.width)) return;
        const GlyphCoverage glyph = glyph_coverage(character, x, size);
        const int left = static_cast<int>(std::floor(x)) + glyph.left;
        for (int row = 0; row < glyph.height; ++row)
            for (int column = 0; column < glyph.width; ++column) {
                const int px = left + column, py = top + glyph.top + row;
                if (px < 0 || py < 0 || px >= image.width || py >= image.height) continue;
                const size_t at =
                    static_cast<size_t>(row) * static_cast<size_t>(glyph.width) + static_cast<size_t>(column);
                mix(image.at(px, py), color, to_weight(glyph.coverage[at]));
            }
        x += glyph_advance(character, size);
    }
}

float text_width(std::string_view text, float size) {
    float width = 0;
    for (const char32_t character : unicode::from_utf8(text)) width += glyph_advance(character, size);
    return width;
}

float text_height(float size) { return font_height(size); }

void draw_label(Image& image, float x, float y, std::string_view text, Color color, float size) {
    check_canvas(image);
    if (text.empty() || !is_text_size(size)) return;
    const float margin = 0.3F * size;
    const float width = std::ceil(text_width(text, size) + 2 * margin);
    const float height = std::ceil(label_height(size));
    const auto inside = [](float at, float length, int limit) {
        return std::floor(std::max(0.0F, std::min(at, static_cast<float>(limit) - length)));
    };
    const float left = inside(x, width, image.width);
    const float top = inside(y, height, image.height);
    fill_rectangle(image, left, top, left + width, top + height, color, 0.9F);
    const int brightness = (color.r * 299 + color.g * 587 + color.b * 114) / 1000;
    const Color ink = brightness > 140 ? Color{0, 0, 0} : Color{255, 255, 255};
    draw_text(image, left + margin, top + (height - text_height(size)) / 2, text, ink, size);
}

float label_height(float size) { return 1.3F * size; }

}  // namespace sam3
