#pragma once

#include "mask/mask.h"

#include <vector>

// Low-resolution mask logits to masks of the image's size, bilinear with align_corners = False as torch's interpolate.
namespace sam3 {

// A view of row-major values; `stride` (0: width) may skip columns, for instance padding on the right.
struct FloatMap {
    const float* data = nullptr;
    int width = 0;
    int height = 0;
    int stride = 0;
};

struct UpsampleOptions {
    float threshold = 0.0F;      // a pixel is set where the upsampled value is greater
    bool sigmoid_first = false;  // upsample probabilities: how transformers does it, with a threshold of 0.5
    int threads = 0;             // 0: as many as OpenMP likes; the result does not depend on it
};

// Row by row: the full-size map of floats never exists.
Mask upsample_mask(const FloatMap& logits, int width, int height, const UpsampleOptions& options = {});

struct StableMask {
    Mask mask;            // where the upsampled logits are above 0
    float stability = 0;  // share of the pixels above +offset among those above -offset; 0 when there are none
};

// SAM's stability score, counted at the size of the image as both references do.
StableMask upsample_stable_mask(const FloatMap& logits, int width, int height, float offset, int threads = 0);

// The values themselves, width * height of them.
std::vector<float> upsample_bilinear(const FloatMap& map, int width, int height, int threads = 0);

}  // namespace sam3
