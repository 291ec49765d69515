#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sam3 {

// Rows of interleaved 8-bit samples, top row first, no padding between rows.
struct Image {
    int width = 0;
    int height = 0;
    int channels = 3;  // 1 grey, 3 RGB, 4 RGBA
    std::vector<uint8_t> pixels;

    Image() = default;
    Image(int image_width, int image_height, int image_channels)
        : width(image_width),
          height(image_height),
          channels(image_channels),
          pixels(static_cast<size_t>(image_width) * static_cast<size_t>(image_height) *
                 static_cast<size_t>(image_channels)) {}

    size_t row_bytes() const { return static_cast<size_t>(width) * static_cast<size_t>(channels); }
    uint8_t* row(int y) { return pixels.data() + static_cast<size_t>(y) * row_bytes(); }
    const uint8_t* row(int y) const { return pixels.data() + static_cast<size_t>(y) * row_bytes(); }
    uint8_t* at(int x, int y) { return row(y) + static_cast<size_t>(x) * static_cast<size_t>(channels); }
    const uint8_t* at(int x, int y) const { return row(y) + static_cast<size_t>(x) * static_cast<size_t>(channels); }
};

// Fails with a sentence when the sizes are not positive, the channels not 1, 3 or 4, or the pixels do not fit them.
void check_image(const Image& image);

}  // namespace sam3
