#pragma once

#include "image/image.h"

#include <cstdint>
#include <memory>
#include <string>

// Frames from a video file, a folder of images or a pipe:
//
//     auto frames = open_frames("clip.mp4");
//     Image image;  // its memory is used again for each frame
//     while (frames->read(image)) show(image);
//     const Image middle = frames->frame(frames->info().frame_count / 2);
//
// A failure is an Error with a sentence that names the file. A source belongs to one thread at a time.
namespace sam3 {

struct Fraction {
    int numerator = 0;
    int denominator = 1;

    double value() const { return static_cast<double>(numerator) / denominator; }
};

struct VideoInfo {
    int width = 0;  // of the frames as read() gives them: turned upright
    int height = 0;
    Fraction fps;              // frames a second, the mean where it varies; never 0
    int64_t frame_count = -1;  // exact, or -1 when only reading to the end can tell
    double duration = -1;      // seconds from the first frame to the end of the last, or -1
    bool has_audio = false;
    std::string codec;  // "h264", "vp9", ...; "images" for a folder, "raw" and "y4m" for a pipe
};

class FrameSource {
public:
    virtual ~FrameSource() = default;

    virtual const VideoInfo& info() const = 0;

    // The next frame, RGB, all of one size; false at the end. Memory of `image` that has the size already is used.
    // Where the video is damaged it fails once for each frame that is lost; the next call gives the frame after it.
    virtual bool read(Image& image) = 0;

    // Chooses the frame that read() gives next, counted from 0. It may lie at or behind the end. In a video file this
    // decodes from the key frame before it, or goes on from where it is; pipes cannot go back.
    virtual void seek(int64_t frame) = 0;

    // When the frame is shown, in seconds after the first one.
    virtual double time_of(int64_t frame) const;

    // Exact, even where info() does not say: then the video is decoded to its end once. Begins again at frame 0. Not
    // for pipes.
    int64_t count_frames();

    // One frame by number, bit-equal to what reading one by one gives; the next read() gives the frame after it.
    Image frame(int64_t index);
};

struct FrameOptions {
    int raw_width = 0;  // size of the raw RGB24 frames of a pipe, or that a camera is asked for; not for YUV4MPEG2
    int raw_height = 0;
    Fraction fps{30, 1};  // of sources that name none: folders and raw frames
    int pipe = 0;         // the file descriptor that "-" stands for; stays open, the caller owns it
};

// "camera:/dev/video0", or "camera:" for the first one: pictures as a camera gives them, until it is switched off.
// "camera:lavfi:testsrc" is a synthetic one (any source of FFmpeg's filters).
bool is_camera(const std::string& path);

// A camera; else a folder is read as JPEG, PNG and WebP images in natural order (2.jpg before 10.jpg); "-" as raw RGB24
// frames or YUV4MPEG2, told by its header; any other path as a video file. A video file's packets are all read once
// here, without decoding them, so that frame_count is exact and every frame can be reached.
std::unique_ptr<FrameSource> open_frames(const std::string& path, const FrameOptions& options = {});

}  // namespace sam3
