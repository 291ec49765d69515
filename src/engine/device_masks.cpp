#include "engine/device_masks.h"

#include <algorithm>

namespace sam3 {

std::vector<Mask> enlarged_on_device(Ops& ops, const Tensor& logits, const Size& size, float threshold) {
    constexpr int64_t kMostBytes = int64_t{128} << 20;
    const int64_t count = logits.dim(0);
    const int64_t most = std::max<int64_t>(1, kMostBytes / (static_cast<int64_t>(size.width) * size.height));
    std::vector<Mask> masks(static_cast<size_t>(count));
    for (int64_t start = 0; start < count; start += most) {
        const int64_t some = std::min(most, count - start);
        const Tensor full =
            ops.download(ops.resize_above(logits.slice(0, start, some), size.height, size.width, threshold));
#pragma omp parallel for schedule(dynamic) num_threads(ops.threads()) if (some > 1)
        for (int64_t i = 0; i < some; ++i) masks[static_cast<size_t>(start + i)] = mask_of(full.slice(0, i, 1));
    }
    return masks;
}

Mask mask_of(const Tensor& bytes) {
    Mask mask;
    mask.width = static_cast<int>(bytes.dim(2));
    mask.height = static_cast<int>(bytes.dim(1));
    mask.data.assign(bytes.data<uint8_t>(), bytes.data<uint8_t>() + bytes.numel());
    return mask;
}

}  // namespace sam3
