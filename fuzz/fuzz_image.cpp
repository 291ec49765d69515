#include "media/image_io.h"
#include "util/error.h"

#include <cstdlib>

// Any bytes either decode to a consistent RGB image or are refused with an Error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace sam3;
    try {
        const Image image = decode_image({data, size}, "input", 1 << 20);
        check_image(image);
        if (image.channels != 3) std::abort();
    } catch (const Error&) {
    }
    return 0;
}
