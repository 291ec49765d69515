#include "image/image.h"

#include "util/error.h"

namespace sam3 {

void check_image(const Image& image) {
    if (image.width < 1 || image.height < 1)
        fail("expected an image of at least 1 x 1 pixels, found ", image.width, " x ", image.height);
    if (image.channels != 1 && image.channels != 3 && image.channels != 4)
        fail("expected an image with 1, 3 or 4 channels, found ", image.channels);
    const size_t expected = image.row_bytes() * static_cast<size_t>(image.height);
    if (image.pixels.size() != expected)
        fail("expected ", expected, " bytes for an image of ", image.width, " x ", image.height, " x ", image.channels,
             ", found ", image.pixels.size());
}

}  // namespace sam3
