#pragma once

#include <cstdint>

namespace sam3::simd {

// One box and one line of pixels, as the operator box_bias defines it.
struct BoxBiasLine {
    static constexpr int64_t kPadding = 16;  // pixels is a multiple of it: no vector is longer
    const float* near;                       // [pixels]: of the distance to the one edge, its logarithm
    const float* far;                        // to the other
    int64_t pixels;
    const float* hidden_weight;  // [channels][2]
    const float* hidden_bias;    // [channels]
    const float* weight;         // [heads][channels]
    const float* bias;           // [heads]
    int64_t channels, heads;
    float* out;  // [heads][pixels]
};

}  // namespace sam3::simd
