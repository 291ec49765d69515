#pragma once

#include "image/image.h"

#include <span>

namespace sam3 {

// The orientation (1 to 8) of a TIFF block as EXIF stores it, with or without the "Exif" mark; 1 when there is none.
int exif_orientation(std::span<const uint8_t> block);

// Turns and mirrors stored pixels so that the image is upright.
Image apply_orientation(Image image, int orientation);
// The same into `upright`, whose memory is kept when it has the size already.
void apply_orientation(const Image& stored, int orientation, Image& upright);

}  // namespace sam3
