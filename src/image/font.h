#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

// Letters for labels: outlines of DejaVu Sans, filled with smooth edges at any size.
namespace sam3 {

// One character's share of a grey picture: how much of each pixel its letter covers, 0 to 1.
struct GlyphCoverage {
    int left = 0, top = 0;  // of the first pixel, relative to the origin of the line: x from the left, y from the top
    int width = 0, height = 0;
    std::vector<float> coverage;  // rows from the top
};

// `x` is where the letter begins, in pixels, and may lie between two; `size` is the height of the em in pixels. Of
// characters beyond Latin-1 and some punctuation the outlined box.
GlyphCoverage glyph_coverage(char32_t character, float x, float size);
float glyph_advance(char32_t character, float size);  // to the next letter, in pixels

float font_ascent(float size);  // from the top of a line to its base
float font_height(float size);  // from the top to the bottom

// The table, written by scripts/make-font-table. Lengths are in parts of kFontEm, upwards from the base of the line.
struct FontGlyph {
    char16_t character;
    uint16_t advance, first_contour, end_contour;
};
extern const int kFontEm, kFontAscent, kFontDescent;
extern const std::array<FontGlyph, 200> kFontGlyphs;   // by character; the last stands for all that are missing
extern const std::array<uint16_t, 383> kFontContours;  // where the points of each end
extern const std::array<int16_t, 9368> kFontPoints;    // 2 x + (1: on the curve), y

}  // namespace sam3
