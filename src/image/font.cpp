#include "image/font.h"

#include <algorithm>
#include <cmath>

namespace sam3 {
namespace {

constexpr float kLargestSize = 1000;  // pixels

struct Corner {
    float x, y;
};

const FontGlyph& find_glyph(char32_t character) {
    const auto found = std::lower_bound(kFontGlyphs.begin(), kFontGlyphs.end() - 1, character,
                                        [](const FontGlyph& glyph, char32_t c) { return glyph.character < c; });
    return found->character == character ? *found : kFontGlyphs.back();
}

// Adds up, row by row, how much area lies to the right of an outline: a running sum along the row then tells coverage.
class AreaSum {
public:
    AreaSum(int width, int height) : width_(width), height_(height) {
        sums_.resize(static_cast<size_t>(width + 1) * static_cast<size_t>(height));
    }

    void add_line(Corner a, Corner b) {
        if (a.y == b.y) return;
        const float direction = a.y < b.y ? 1.0F : -1.0F;
        if (a.y > b.y) std::swap(a, b);
        const float slope = (b.x - a.x) / (b.y - a.y);
        const int end = std::min(height_, static_cast<int>(std::ceil(b.y)));
        for (int row = std::max(0, static_cast<int>(a.y)); row < end; ++row) {
            const float from = std::max(a.y, static_cast<float>(row));
            const float to = std::min(b.y, static_cast<float>(row + 1));
            if (to > from)
                add_piece(row, a.x + (from - a.y) * slope, a.x + (to - a.y) * slope, (to - from) * direction);
        }
    }

    std::vector<float> coverage() const {
        std::vector<float> out;
        out.reserve(static_cast<size_t>(width_) * static_cast<size_t>(height_));
        for (int y = 0; y < height_; ++y) {
            float sum = 0;
            for (int x = 0; x < width_; ++x) {
                sum += sums_[place(x, y)];
                out.push_back(std::min(std::abs(sum), 1.0F));
            }
        }
        return out;
    }

private:
    size_t place(int x, int y) const {
        return static_cast<size_t>(y) * static_cast<size_t>(width_ + 1) + static_cast<size_t>(x);
    }

    // A piece of a line inside one row, from x0 to x1: each pixel gets what of it lies to the right, all that follow in
    // full.
    void add_piece(int row, float x0, float x1, float height) {
        if (x0 > x1) std::swap(x0, x1);
        const int first = std::clamp(static_cast<int>(x0), 0, width_ - 1);
        const int last = std::clamp(static_cast<int>(std::ceil(x1)) - 1, first, width_ - 1);
        float before = 0;
        for (int x = first; x <= last; ++x) {
            const float share = mean_right(x0, x1, static_cast<float>(x));
            sums_[place(x, row)] += height * (share - before);
            before = share;
        }
        sums_[place(last + 1, row)] += height * (1 - before);
    }

    // How much of the pixel from `left` on lies right of x, in the mean over x from x0 to x1.
    static float mean_right(float x0, float x1, float left) {
        if (x1 - x0 < 1e-3F) return std::clamp(left + 1 - (x0 + x1) / 2, 0.0F, 1.0F);
        const auto ramp = [](float depth) { return depth > 0 ? depth * depth / 2 : 0.0F; };
        return (ramp(left + 1 - x0) - ramp(left + 1 - x1) - ramp(left - x0) + ramp(left - x1)) / (x1 - x0);
    }

    int width_, height_;
    std::vector<float> sums_;
};

// A quadratic curve as lines.
void add_curve(AreaSum& area, Corner a, Corner control, Corner b, int pieces) {
    Corner from = a;
    for (int i = 1; i <= pieces; ++i) {
        const float t = static_cast<float>(i) / static_cast<float>(pieces), s = 1 - t;
        const Corner to = {s * s * a.x + 2 * s * t * control.x + t * t * b.x,
                           s * s * a.y + 2 * s * t * control.y + t * t * b.y};
        area.add_line(from, to);
        from = to;
    }
}

struct OutlinePoint {
    Corner at;
    bool on;  // the curve; else a control point
};

Corner middle(Corner a, Corner b) { return {(a.x + b.x) / 2, (a.y + b.y) / 2}; }

// Between two control points lies a point of the curve that the font leaves out.
void add_contour(AreaSum& area, const std::vector<OutlinePoint>& points, int pieces) {
    if (points.empty()) return;
    const size_t count = points.size();
    const OutlinePoint& last = points[count - 1];
    const Corner start = points[0].on ? points[0].at : last.on ? last.at : middle(last.at, points[0].at);
    Corner from = start;
    for (size_t i = points[0].on ? 1 : 0; i < count; ++i) {
        if (points[i].on) {
            area.add_line(from, points[i].at);
            from = points[i].at;
            continue;
        }
        const bool closes = i + 1 == count;
        const Corner to = closes ? start : points[i + 1].on ? points[i + 1].at : middle(points[i].at, points[i + 1].at);
        add_curve(area, from, points[i].at, to, pieces);
        from = to;
    }
    area.add_line(from, start);
}

}  // namespace

GlyphCoverage glyph_coverage(char32_t character, float x, float size) {
    GlyphCoverage out;
    const FontGlyph& glyph = find_glyph(character);
    if (!(size > 0) || size > kLargestSize || !std::isfinite(x) || glyph.first_contour == glyph.end_contour) return out;
    const float unit = size / static_cast<float>(kFontEm), whole = std::floor(x);
    const auto begin = [](size_t contour) { return contour == 0 ? size_t{0} : size_t{kFontContours[contour - 1]}; };
    std::vector<OutlinePoint> points;
    float left = 1e9F, top = 1e9F, right = -1e9F, bottom = -1e9F;
    for (size_t i = begin(glyph.first_contour); i < begin(glyph.end_contour); ++i) {
        const int packed = kFontPoints[2 * i];
        const Corner at = {static_cast<float>(packed >> 1) * unit + (x - whole),
                           static_cast<float>(kFontAscent - kFontPoints[2 * i + 1]) * unit};
        points.push_back({at, (packed & 1) != 0});
        left = std::min(left, at.x);
        right = std::max(right, at.x);
        top = std::min(top, at.y);
        bottom = std::max(bottom, at.y);
    }
    const float x0 = std::floor(left), y0 = std::floor(top);
    out.left = static_cast<int>(x0);
    out.top = static_cast<int>(y0);
    out.width = static_cast<int>(std::ceil(right - x0)) + 1;
    out.height = static_cast<int>(std::ceil(bottom - y0)) + 1;
    for (OutlinePoint& point : points) point.at = {point.at.x - x0, point.at.y - y0};
    AreaSum area(out.width, out.height);
    const int pieces = std::clamp(static_cast<int>(std::sqrt(size)), 3, 24);
    const size_t first = begin(glyph.first_contour);
    for (size_t contour = glyph.first_contour; contour < glyph.end_contour; ++contour)
        add_contour(area,
                    {points.begin() + static_cast<std::ptrdiff_t>(begin(contour) - first),
                     points.begin() + static_cast<std::ptrdiff_t>(begin(contour + 1) - first)},
                    pieces);
    out.coverage = area.coverage();
    return out;
}

float glyph_advance(char32_t character, float size) {
    return static_cast<float>(find_glyph(character).advance) * size / static_cast<float>(kFontEm);
}

float font_ascent(float size) { return static_cast<float>(kFontAscent) * size / static_cast<float>(kFontEm); }

float font_height(float size) {
    return static_cast<float>(kFontAscent + kFontDescent) * size / static_cast<float>(kFontEm);
}

}  // namespace sam3
