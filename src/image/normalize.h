#pragma once

#include "image/image.h"

#include <array>
#include <vector>

namespace sam3 {

// Statistics of samples in [0, 1], as model cards give them.
struct Normalization {
    std::array<float, 3> mean{0.5F, 0.5F, 0.5F};
    std::array<float, 3> std{0.5F, 0.5F, 0.5F};
};

struct Size {
    int width = 0;
    int height = 0;
};

// (x - 255 mean) / (255 std) in float32, which is how transformers fuses rescaling and normalising: equal to the bit.
// `image` has 3 channels; `out` takes out_size.height * out_size.width * 3 floats, channels last. Where out_size is
// larger than the image, the right and bottom are padded with 0 (after normalising, as SAM 1 does).
void normalize_image(const Image& image, const Normalization& normalization, const Size& out_size, float* out,
                     int threads = 0);
std::vector<float> normalize_image(const Image& image, const Normalization& normalization, int threads = 0);

// The size with the longer side equal to `longest`, aspect kept, rounded as SAM 1 does.
Size fit_longest_side(const Size& size, int longest);

}  // namespace sam3
