#include "eval/clicks.h"

#include "mask/distance.h"
#include "util/error.h"

namespace sam3 {

std::optional<SimulatedClick> first_click(const Mask& truth) {
    const std::optional<InnerCircle> circle = largest_inner_circle(truth);
    if (!circle) return std::nullopt;
    return SimulatedClick{circle->x, circle->y, true};
}

std::optional<SimulatedClick> correcting_click(const Mask& mask, const Mask& truth) {
    if (mask.width != truth.width || mask.height != truth.height)
        fail("a mask of ", mask.width, " x ", mask.height, " pixels cannot be compared with a truth of ", truth.width,
             " x ", truth.height);
    Mask missing(mask.width, mask.height), extra(mask.width, mask.height);
    for (size_t i = 0; i < mask.data.size(); ++i) {
        missing.data[i] = mask.data[i] == 0 && truth.data[i] != 0;
        extra.data[i] = mask.data[i] != 0 && truth.data[i] == 0;
    }
    const std::optional<InnerCircle> add = largest_inner_circle(missing), remove = largest_inner_circle(extra);
    if (!add && !remove) return std::nullopt;
    const bool positive = !remove || (add && add->squared_radius > remove->squared_radius);
    const InnerCircle& circle = positive ? *add : *remove;
    return SimulatedClick{circle.x, circle.y, positive};
}

}  // namespace sam3
