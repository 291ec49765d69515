#pragma once

#include "image/image.h"
#include "media/ffmpeg.h"

namespace sam3 {

// A decoded frame to RGB by libswscale, with the matrix and the range that the frame names; a frame that names none
// is BT.601 with limited range, as in FFmpeg's own tools. Flags: SWS_BILINEAR | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT |
// SWS_BITEXACT, which is `-sws_flags bilinear+accurate_rnd+full_chroma_int+bitexact` of the ffmpeg program: chroma is
// interpolated in both directions, as JPEG decoders do, samples are rounded, not cut off, and the result is the same on
// every CPU. High dynamic range is not tone-mapped, pixels that are not square stay so.
class RgbConverter {
public:
    // Writes `width` x `height` RGB pixels; a frame of another size is scaled. `name` is for the sentence of a failure.
    // The memory of `image` is kept when it has that size already.
    void convert(const AVFrame& frame, int width, int height, Image& image, const std::string& name);

private:
    struct Kind {  // what a context is made for
        int frame_width = 0, frame_height = 0, format = -1, matrix = 0, range = 0, width = 0, height = 0;
        bool operator==(const Kind&) const = default;
    };
    void prepare(const Kind& kind, const std::string& name);

    ffmpeg::SwsPtr context_;
    ffmpeg::FramePtr target_ = ffmpeg::make_frame();  // stands for the memory of the caller's image
    Kind kind_;
};

}  // namespace sam3
