#pragma once

#include "image/image.h"
#include "media/video_reader.h"

#include <memory>
#include <string>
#include <vector>

// Frames to an MP4 file:
//
//     VideoWriter writer("out.mp4", 1280, 720, {.fps = frames->info().fps});
//     writer.copy_audio_from("clip.mp4");
//     for (...) writer.write(image);
//     writer.finish();
//
// The file gets its name in finish(); a writer that is destroyed before leaves nothing behind. A failure is an Error
// with a sentence that names the file. A writer belongs to one thread at a time.
namespace sam3 {

struct VideoWriterOptions {
    Fraction fps{30, 1};
    int crf = 18;  // constant rate factor of H.264: 0 is lossless but for the colours, 51 the worst
    // Most frames from one key frame to the next: smaller files against faster seeking. 0 lets the encoder choose.
    int key_interval = 0;
};

// H.264 by libx264 or, where FFmpeg was built without it, MPEG-4 part 2. Colours are yuv420p with limited range, BT.709
// from 720 rows on and BT.601 below, and the file says so. These formats need an even width and height: an odd one is
// made even by repeating the last column or row.
class VideoWriter {
public:
    // `path` must end in .mp4; width and height are those of the frames.
    VideoWriter(const std::string& path, int width, int height, const VideoWriterOptions& options = {});
    VideoWriter(VideoWriter&&) noexcept;
    VideoWriter& operator=(VideoWriter&&) noexcept;
    ~VideoWriter();

    // Before the first frame: takes over the sound of a file, packet by packet and unchanged, from `start` seconds
    // after its first video frame on and for as long as frames are written. Sound that is missing or that MP4 cannot
    // hold is left out, and notes() says so.
    void copy_audio_from(const std::string& path, double start = 0);

    void write(const Image& image);  // RGB

    // Completes the file and gives it its name. Nothing can be written after it.
    void finish();

    int64_t frames_written() const;
    // Sentences about what is not as asked for.
    const std::vector<std::string>& notes() const;

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace sam3
