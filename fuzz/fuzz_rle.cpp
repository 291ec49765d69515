#include "mask/polygon.h"
#include "mask/rle.h"
#include "util/error.h"

#include <cstdlib>

// Two bytes of size, then a COCO RLE string: it is refused with an Error, or decodes and comes back as it was.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace sam3;
    if (size < 2) return 0;
    const std::string_view text(reinterpret_cast<const char*>(data + 2), size - 2);
    try {
        const Rle rle = rle_from_string(text, data[0], data[1]);
        const Mask mask = rle_decode(rle);
        const Rle canonical = rle_encode(mask);
        if (rle_area(rle) != mask_area(mask) || !(rle_box(rle) == rle_box(canonical))) std::abort();
        if (!(rle_from_string(rle_to_string(rle), rle.width, rle.height) == rle)) std::abort();
        if (!(rle_union(rle, canonical) == canonical)) std::abort();
        if (!(rasterize(mask_to_polygons(mask), mask.width, mask.height) == mask)) std::abort();
    } catch (const Error&) {
    }
    return 0;
}
