#pragma once

#include "image/image.h"

namespace sam3 {

// Whose rounding to follow, to the bit. All compute fixed-point weights per axis, resize one axis, round to 8 bits,
// then resize the other; they differ in the weights' precision and in which axis comes first.
enum class ResizeStyle {
    torchvision,  // v2.functional.resize of a uint8 tensor with antialias=True: 16-bit weights, horizontal first
    pillow,       // Image.resize of Pillow 13: 22 fractional bits; vertical first when the height shrinks much more
    pillow_12,    // Image.resize up to Pillow 12: 22 fractional bits, always horizontal first
};
enum class ResizeFilter { bilinear, bicubic };

struct ResizeOptions {
    ResizeStyle style = ResizeStyle::torchvision;
    ResizeFilter filter = ResizeFilter::bilinear;
    int threads = 0;  // 0: as many as OpenMP likes; the result does not depend on it
};

// Antialiased: the filter widens with the scale when shrinking. Channels are independent, alpha is one of them.
Image resize(const Image& image, int width, int height, const ResizeOptions& options = {});

}  // namespace sam3
