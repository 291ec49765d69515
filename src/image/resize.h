#pragma once

#include "image/image.h"

#include <cstdint>
#include <vector>

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

// What an axis is resized by, for devices that do it themselves: output i is the sum of weights[i][j] times input
// first[i] + j, with half a unit added and `precision` bits dropped. Horizontal first, rounded to bytes in between.
struct ResizeWeights {
    int precision = 0;
    int capacity = 0;                // weights of an output, zeros at the end
    std::vector<int> first;          // [output]
    std::vector<int32_t> weights{};  // [output, capacity]
};
ResizeWeights resize_weights(int input, int output);  // torchvision's style, bilinear

}  // namespace sam3
