#include "models/image_model.h"

namespace sam3 {

bool StabilityRule::holds(const Tensor& logits) const {
    int64_t inner = 0;
    int64_t outer = 0;
    const float* value = logits.data<float>();
    for (int64_t i = 0; i < logits.numel(); ++i) {
        inner += value[i] > delta ? 1 : 0;
        outer += value[i] > -delta ? 1 : 0;
    }
    return outer == 0 || static_cast<float>(inner) / static_cast<float>(outer) >= threshold;
}

}  // namespace sam3
