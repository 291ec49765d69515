#pragma once

#include <cstdint>

// A small bitmap font for overlays, drawn for this project.
namespace sam3 {

inline constexpr int kGlyphWidth = 5;
inline constexpr int kGlyphHeight = 9;   // 7 rows above the baseline, 2 below
inline constexpr int kGlyphAdvance = 6;  // from one character to the next

// kGlyphHeight rows, bit 4 is the left column; an outlined box for anything that is not printable ASCII.
const uint8_t* glyph_rows(char character);

}  // namespace sam3
