#include "media/codecs.h"
#include "media/exif.h"
#include "util/error.h"

#include <webp/decode.h>

#include <algorithm>
#include <cstring>

namespace sam3 {
namespace {

uint32_t little_endian(std::span<const uint8_t> at) {
    return at[0] | static_cast<uint32_t>(at[1]) << 8 | static_cast<uint32_t>(at[2]) << 16 |
           static_cast<uint32_t>(at[3]) << 24;
}

// Walks the RIFF chunks after the 12-byte file header to the one that holds EXIF data.
int orientation_of(std::span<const uint8_t> bytes) {
    size_t at = 12;
    while (bytes.size() >= 8 && at <= bytes.size() - 8) {
        const auto chunk = bytes.subspan(at);
        const size_t length = little_endian(chunk.subspan(4));
        const size_t available = std::min(length, chunk.size() - 8);
        if (std::memcmp(chunk.data(), "EXIF", 4) == 0) return exif_orientation(chunk.subspan(8, available));
        if (length > chunk.size() - 8) return 1;
        at += 8 + length + (length & 1);
    }
    return 1;
}

const char* reason(VP8StatusCode status) {
    switch (status) {
        case VP8_STATUS_OUT_OF_MEMORY: return "out of memory";
        case VP8_STATUS_BITSTREAM_ERROR: return "damaged data";
        case VP8_STATUS_UNSUPPORTED_FEATURE: return "unsupported feature";
        case VP8_STATUS_NOT_ENOUGH_DATA: return "the data ends too early";
        default: return "invalid file";
    }
}

}  // namespace

Decoded decode_webp(std::span<const uint8_t> bytes, const std::string& name, int64_t max_pixels) {
    WebPDecoderConfig config;
    if (WebPInitDecoderConfig(&config) == 0)
        fail("libwebp at run time does not fit the one this program was built with");
    const VP8StatusCode header = WebPGetFeatures(bytes.data(), bytes.size(), &config.input);
    if (header != VP8_STATUS_OK)
        fail(name, ": expected a WebP image, but its header cannot be read (", reason(header), ")");
    if (config.input.has_animation != 0)
        fail(name, ": expected a still image, found an animated WebP; extract a frame and save it as PNG or JPEG");
    const auto width = static_cast<uint64_t>(config.input.width);
    check_image_size(width, static_cast<uint64_t>(config.input.height), name, max_pixels);
    Decoded out;
    out.image = Image(config.input.width, config.input.height, 3);
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = out.image.pixels.data();
    config.output.u.RGBA.stride = config.input.width * 3;
    config.output.u.RGBA.size = out.image.pixels.size();
    const VP8StatusCode status = WebPDecode(bytes.data(), bytes.size(), &config);
    WebPFreeDecBuffer(&config.output);
    if (status != VP8_STATUS_OK)
        fail(name, ": the WebP data cannot be decoded (", reason(status), ", ", bytes.size(),
             " bytes); the file is truncated or damaged, copy it again");
    out.orientation = orientation_of(bytes);
    return out;
}

}  // namespace sam3
