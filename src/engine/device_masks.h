#pragma once

#include "image/normalize.h"
#include "mask/mask.h"
#include "runtime/ops.h"

#include <vector>

// Masks of an image's size by a device whose memory is not the host's.
namespace sam3 {

// logits [K, h, w] there; a pixel is set where the enlarged logits are above the threshold. So many at a time that they
// need little memory.
std::vector<Mask> enlarged_on_device(Ops& ops, const Tensor& logits, const Size& size, float threshold = 0.0F);

Mask mask_of(const Tensor& bytes);  // u8 [1, height, width] in host memory

}  // namespace sam3
