#pragma once

#include "mask/rle.h"

#include <vector>

namespace sam3 {

// One object through a clip, a mask a frame; an image is a clip of one frame. Where the object is not to be seen the
// mask is empty or has no counts at all.
using Track = std::vector<Rle>;

int64_t track_area(const Track& track);  // pixels of all frames together
// Intersection over union of the two as volumes: of an image the plain IoU. 0 when both are empty.
double track_iou(const Track& a, const Track& b);

}  // namespace sam3
