#pragma once

#include "media/ffmpeg.h"

#include <string>
#include <vector>

namespace sam3 {

// Takes the packets of a file's sound over to another file, unchanged.
class AudioCopy {
public:
    // Adds a stream to `output` unless there is no sound, or none that it can hold: then a sentence goes into `notes`.
    // `start` is in seconds after the first video frame of the file.
    AudioCopy(const std::string& path, double start, AVFormatContext* output, std::vector<std::string>& notes);

    // Writes what is heard before `end` seconds of the output. Gives FFmpeg's result, negative for a failed writing.
    int write_until(double end, AVFormatContext* output);

private:
    bool next();

    ffmpeg::InputPtr input_;
    ffmpeg::PacketPtr packet_ = ffmpeg::make_packet();
    const AVStream* from_ = nullptr;  // owned by input_; null when there is nothing to copy
    const AVStream* to_ = nullptr;    // owned by the output
    int64_t start_ = 0;               // ticks of from_ that become 0
    bool waits_ = false;              // packet_ was read but not yet written
};

}  // namespace sam3
