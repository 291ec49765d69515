#include "formats/segmentation.h"

#include "image/draw.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace sam3 {

namespace {

constexpr float kLetterSize = 12;  // pixels, on a picture of 480 x 480

}  // namespace

Image to_grey(const Mask& mask) {
    Image image(mask.width, mask.height, 1);
    for (size_t i = 0; i < mask.data.size(); ++i) image.pixels[i] = mask.data[i] != 0 ? 255 : 0;
    return image;
}

Image draw_overlay(const Image& image, const Segmentation& segmentation) {
    Image out = image;
    // Line width and letters grow with the picture, so that they are seen on a photograph and fit a thumbnail.
    const float unit =
        std::max(1.0F, std::sqrt(static_cast<float>(out.width) * static_cast<float>(out.height)) / 480.0F);
    const auto color = [&](size_t i) {
        const int id = segmentation.instances[i].id;
        return palette_color(id >= 0 ? id : static_cast<int>(i));
    };
    for (size_t i = 0; i < segmentation.instances.size(); ++i)
        blend_mask(out, segmentation.instances[i].mask.data, color(i));
    for (size_t i = 0; i < segmentation.instances.size(); ++i)
        draw_contour(out, segmentation.instances[i].mask.data, color(i), 1.5F * unit);
    for (size_t i = segmentation.instances.size(); i-- > 0;) {
        const Segmentation::Instance& instance = segmentation.instances[i];
        draw_box(out, instance.x0, instance.y0, instance.x1, instance.y1, color(i), unit);
        char score[16];
        std::snprintf(score, sizeof score, " %.2f", static_cast<double>(instance.score));
        const float size = kLetterSize * unit;
        draw_label(out, instance.x0 - unit / 2, instance.y0 - label_height(size), instance.label + score, color(i),
                   size);
    }
    return out;
}

}  // namespace sam3
