#pragma once

#include "formats/segmentation.h"

#include <cstdint>
#include <vector>

namespace sam3 {

// One number a pixel: 0 the background, an object's id + 1 its pixels. Where objects overlap, one is on top: on a still
// image the one with the higher score, on frames of a clip the one with the higher id, so that nothing flickers.
std::vector<uint16_t> label_pixels(const Segmentation& record);  // ids of 0 to 65534

// The masks of the instances, in their order, without the pixels that another one has taken by that rule.
std::vector<Mask> separate_masks(const Segmentation& record);

// PNG with the palette of DAVIS and PASCAL VOC; ids of 0 to 254.
std::vector<uint8_t> to_davis_png(const Segmentation& record);
// PNG with 16-bit grey values.
std::vector<uint8_t> to_ids_png(const Segmentation& record);

}  // namespace sam3
