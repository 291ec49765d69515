#include "media/versions.h"

#include <cstdio>  // jpeglib.h needs FILE

#include <jpeglib.h>
#include <spng.h>
#include <webp/decode.h>

namespace sam3 {
namespace {

std::string dotted(int packed) {  // 0xMMmmpp
    return std::to_string((packed >> 16) & 0xFF) + "." + std::to_string((packed >> 8) & 0xFF) + "." +
           std::to_string(packed & 0xFF);
}

#ifdef LIBJPEG_TURBO_VERSION_NUMBER
constexpr int kJpeg = LIBJPEG_TURBO_VERSION_NUMBER;  // MMMmmmppp
#else
constexpr int kJpeg = 0;
#endif

}  // namespace

std::vector<std::pair<std::string, std::string>> media_library_versions() {
    std::vector<std::pair<std::string, std::string>> out;
    if (kJpeg > 0) {
        out.emplace_back("libjpeg-turbo", std::to_string(kJpeg / 1000000) + "." + std::to_string(kJpeg / 1000 % 1000) +
                                              "." + std::to_string(kJpeg % 1000));
    } else {
        out.emplace_back("libjpeg", std::to_string(JPEG_LIB_VERSION));
    }
    out.emplace_back("libspng", spng_version_string());
    out.emplace_back("libwebp", dotted(WebPGetDecoderVersion()));
    out.emplace_back("FFmpeg", ffmpeg_version());
    return out;
}

}  // namespace sam3
