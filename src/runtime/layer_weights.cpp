#include "runtime/layer_weights.h"

#include <cstdint>

namespace sam3 {

Tensor LayerWeights::decoded() const {
    if (!coded()) return values;
    Tensor result = Tensor::host(values.shape());
    const int64_t channels = values.dim(0), depth = channels == 0 ? 0 : values.numel() / channels;
    const auto* codes = values.data<int8_t>();
    auto* to = result.data<float>();
    for (int64_t c = 0; c < channels; ++c)
        for (int64_t i = 0; i < depth; ++i) *to++ = static_cast<float>(*codes++) * scales.data<float>()[c];
    return result;
}

}  // namespace sam3
