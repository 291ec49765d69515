#pragma once

#include "image/image.h"

#include <vector>

// The two inner loops of a separable resize: weighted sums of neighbouring samples in fixed point.
namespace sam3 {

// For output i of one axis: `count[i]` inputs from `first[i]` on, with `capacity` stored weights (zeros at the end).
template <typename Weight>
struct Taps {
    int capacity = 0;   // a multiple of 4
    int precision = 0;  // fractional bits of a weight, at least 1
    std::vector<int> first, count;
    std::vector<Weight> weights;

    const Weight* of(int i) const { return weights.data() + static_cast<size_t>(i) * static_cast<size_t>(capacity); }
};

inline constexpr int kRowGroup = 4;  // rows that share the loading of weights

// Rows [y, y + kRowGroup) of `out`, as far as they exist, from the same rows of `image`.
void resample_row_group(const Image& image, const Taps<int16_t>& taps, int y, Image& out);
void resample_row_group(const Image& image, const Taps<int32_t>& taps, int y, Image& out);

// Row y of `out` from the rows of `image` that its taps name.
void resample_down(const Image& image, const Taps<int16_t>& taps, int y, Image& out);
void resample_down(const Image& image, const Taps<int32_t>& taps, int y, Image& out);

}  // namespace sam3
