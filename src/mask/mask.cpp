#include "mask/mask.h"

#include "util/error.h"

namespace sam3 {

void check_mask(const Mask& mask) {
    const bool negative = mask.width < 0 || mask.height < 0;
    if (negative || mask.data.size() != static_cast<size_t>(mask.width) * static_cast<size_t>(mask.height))
        fail("expected a mask of width x height bytes, found ", mask.width, " x ", mask.height, " with ",
             mask.data.size(), " bytes");
}

int64_t mask_area(const Mask& mask) {
    int64_t area = 0;
    for (const uint8_t value : mask.data) area += value != 0;
    return area;
}

}  // namespace sam3
