#pragma once

#include "image/image.h"

#include <span>
#include <string_view>

// Overlays on RGB images. Everything is clipped to the image; lengths are in pixels.
namespace sam3 {

struct Color {
    uint8_t r = 0, g = 0, b = 0;
};

// Well separated colours, one for every object id; the same id always gives the same colour.
Color palette_color(int id);

// Mixes `color` into the pixels where `mask` (one byte a pixel, row-major, of the image's size) is not 0.
void blend_mask(Image& image, std::span<const uint8_t> mask, Color color, float alpha = 0.45F);

// A smooth line along the border of the mask. Where the mask touches the image's edge there is no border.
void draw_contour(Image& image, std::span<const uint8_t> mask, Color color, float thickness = 2.0F);

// The outline of a box, `thickness` pixels wide, centred on its edges.
void draw_box(Image& image, float x0, float y0, float x1, float y1, Color color, float thickness = 2.0F);

// A filled disc, smooth at the edge: clicks and key points.
void draw_disc(Image& image, float x, float y, float radius, Color color);

// UTF-8 text in DejaVu Sans with the top left corner of its line at (x, y); `size` is the height of the em in pixels.
void draw_text(Image& image, float x, float y, std::string_view text, Color color, float size = 14.0F);
float text_width(std::string_view text, float size = 14.0F);
float text_height(float size = 14.0F);

// Text on a filled plate in `color`, black or white whichever is readable, moved so that it lies inside the image.
void draw_label(Image& image, float x, float y, std::string_view text, Color color, float size = 14.0F);
float label_height(float size = 14.0F);  // of the plate

}  // namespace sam3
