#pragma once

#include "media/video_reader.h"
#include "ordered_queue.h"

#include <cstdint>
#include <exception>
#include <optional>
#include <thread>
#include <vector>

namespace sam3::cli {

// Decodes the next frames in a thread of its own while somebody works on this one. Holds a few frames at most. The
// source belongs to it until it is destroyed.
class FramesAhead {
public:
    // numbers: the frames that are wanted, in this order
    FramesAhead(FrameSource& frames, std::vector<int64_t> numbers);
    FramesAhead(const FramesAhead&) = delete;
    FramesAhead& operator=(const FramesAhead&) = delete;
    ~FramesAhead();

    // The next of them; nothing where the video ends before it. Fails as reading it did.
    std::optional<Image> next();

private:
    struct Frame {
        std::optional<Image> image;
        std::exception_ptr failure;
    };
    void work();
    Frame read(int64_t number);

    FrameSource& frames_;
    std::vector<int64_t> numbers_;
    int64_t position_ = -1;  // of the source; -1: not known
    OrderedQueue<Frame> queue_;
    std::thread thread_;
};

}  // namespace sam3::cli
