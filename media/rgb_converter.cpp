#include "media/rgb_converter.h"

#include "util/error.h"

#include <algorithm>
#include <thread>
#include <utility>

extern "C" {
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
}

namespace sam3 {

namespace {

// One thread takes 13 ms for 1920 x 1080 pixels. The number of threads does not change the result.
constexpr unsigned kMostConverterThreads = 4;

ffmpeg::SwsPtr make_context(int from_width, int from_height, AVPixelFormat from, int width, int height) {
    constexpr int kFlags = SWS_BILINEAR | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_BITEXACT;
    ffmpeg::SwsPtr context(sws_alloc_context());
    if (!context) return nullptr;
    const std::pair<const char*, int64_t> options[] = {
        {"srcw", from_width},  {"srch", from_height},
        {"src_format", from},  {"dstw", width},
        {"dsth", height},      {"dst_format", AV_PIX_FMT_RGB24},
        {"sws_flags", kFlags}, {"threads", std::clamp(std::thread::hardware_concurrency(), 1U, kMostConverterThreads)}};
    for (const auto& [name, value] : options)
        if (av_opt_set_int(context.get(), name, value, 0) < 0) return nullptr;
    return sws_init_context(context.get(), nullptr, nullptr) < 0 ? nullptr : std::move(context);
}

}  // namespace

void RgbConverter::prepare(const Kind& kind, const std::string& name) {
    const auto format = static_cast<AVPixelFormat>(kind.format);
    context_ = make_context(kind.frame_width, kind.frame_height, format, kind.width, kind.height);
    if (!context_) {
        const char* known = av_get_pix_fmt_name(format);
        fail(name, ": frames of ", kind.frame_width, " x ", kind.frame_height, " pixels in the format ",
             known ? known : "unknown", " cannot be converted to RGB; convert the video first, for example to H.264");
    }
    int *from = nullptr, *to = nullptr;
    int from_full = 0, to_full = 0, brightness = 0, contrast = 0, saturation = 0;
    // Fails for formats that need no matrix, such as RGB.
    if (sws_getColorspaceDetails(context_.get(), &from, &from_full, &to, &to_full, &brightness, &contrast,
                                 &saturation) >= 0) {
        if (kind.range != AVCOL_RANGE_UNSPECIFIED) from_full = kind.range == AVCOL_RANGE_JPEG ? 1 : 0;
        sws_setColorspaceDetails(context_.get(), sws_getCoefficients(kind.matrix), from_full, to, to_full, brightness,
                                 contrast, saturation);
    }
    kind_ = kind;
}

void RgbConverter::convert(const AVFrame& frame, int width, int height, Image& image, const std::string& name) {
    const Kind kind{frame.width,       frame.height, frame.format, static_cast<int>(frame.colorspace),
                    frame.color_range, width,        height};
    if (!context_ || !(kind == kind_)) prepare(kind, name);
    if (image.width != width || image.height != height || image.channels != 3 ||
        image.pixels.size() != image.row_bytes() * static_cast<size_t>(height))
        image = Image(width, height, 3);
    av_frame_unref(target_.get());
    target_->format = AV_PIX_FMT_RGB24;
    target_->width = width;
    target_->height = height;
    target_->data[0] = image.pixels.data();
    target_->linesize[0] = static_cast<int>(image.row_bytes());
    // libswscale takes frames that count references only; this one owns nothing.
    target_->buf[0] = av_buffer_create(
        image.pixels.data(), image.pixels.size(), [](void*, uint8_t*) {}, nullptr, 0);
    if (target_->buf[0] == nullptr) fail("out of memory while converting a video frame");
    const int scaled = sws_scale_frame(context_.get(), target_.get(), &frame);
    if (scaled < 0) fail(name, ": a frame cannot be converted to RGB (", ffmpeg::reason(scaled), ")");
}

}  // namespace sam3
