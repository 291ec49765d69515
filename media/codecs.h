#pragma once

#include "image/image.h"

#include <span>
#include <string>

// One decoder a format: upright pixels are the caller's work, `orientation` is the EXIF value 1 to 8.
namespace sam3 {

struct Decoded {
    Image image;  // RGB
    int orientation = 1;
};

Decoded decode_jpeg(std::span<const uint8_t> bytes, const std::string& name, int64_t max_pixels);
Decoded decode_png(std::span<const uint8_t> bytes, const std::string& name, int64_t max_pixels);
Decoded decode_webp(std::span<const uint8_t> bytes, const std::string& name, int64_t max_pixels);

// Fails with a sentence that names the limit.
void check_image_size(uint64_t width, uint64_t height, const std::string& name, int64_t max_pixels);

}  // namespace sam3
