#pragma once

#include "runtime/tensor.h"

#include <utility>

namespace sam3 {

// A layer's weights on their way from a file to a device, in host memory, [out, ...]: f32, or i8 codes with an f32
// scale for each output channel, value = scale * code.
struct LayerWeights {
    LayerWeights() = default;
    LayerWeights(Tensor f32) : values(std::move(f32)) {}
    LayerWeights(Tensor codes, Tensor their_scales) : values(std::move(codes)), scales(std::move(their_scales)) {}

    bool coded() const { return scales.defined(); }
    Tensor decoded() const;  // f32; the values themselves when they are

    Tensor values;
    Tensor scales;  // [out]; undefined for f32
};

}  // namespace sam3
