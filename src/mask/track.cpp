#include "mask/track.h"

#include "util/error.h"

namespace sam3 {

int64_t track_area(const Track& track) {
    int64_t area = 0;
    for (const Rle& mask : track) area += rle_area(mask);
    return area;
}

double track_iou(const Track& a, const Track& b) {
    if (a.size() != b.size()) fail("tracks of ", a.size(), " and ", b.size(), " frames cannot be compared");
    int64_t both = 0;
    for (size_t i = 0; i < a.size(); ++i)
        if (!a[i].counts.empty() && !b[i].counts.empty()) both += rle_intersection_area(a[i], b[i]);
    const int64_t either = track_area(a) + track_area(b) - both;
    return either == 0 ? 0.0 : static_cast<double>(both) / static_cast<double>(either);
}

}  // namespace sam3
