#pragma once

#include "mask/mask.h"

#include <optional>
#include <vector>

namespace sam3 {

// The squared Euclidean distance, in pixels, from every pixel to the nearest set pixel of `targets`, rows from the top;
// exact. Without any set pixel all are at least (width + height) squared.
std::vector<int64_t> squared_distances(const Mask& targets);

// The centre of a largest circle inside the mask, which ends at the border of the picture: of equal ones the first, row
// by row.
struct InnerCircle {
    int x = 0, y = 0;
    int64_t squared_radius = 0;  // to the nearest pixel outside
};
std::optional<InnerCircle> largest_inner_circle(const Mask& mask);  // nothing for an empty mask

}  // namespace sam3
