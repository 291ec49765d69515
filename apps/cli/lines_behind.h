#pragma once

#include "ordered_queue.h"
#include "track_files.h"

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>

namespace sam3::cli {

// Codes and writes finished frames in a thread of its own while the next frame is worked on: the masks of many objects
// take a good part of a GPU's frame. The files belong to it between add() and wait().
class LinesBehind {
public:
    explicit LinesBehind(TrackFiles& files);
    LinesBehind(const LinesBehind&) = delete;
    LinesBehind& operator=(const LinesBehind&) = delete;
    ~LinesBehind();  // writes what it was given

    void add(TrackedObjects tracked);  // fails as an earlier one did
    void wait();                       // until all are written

private:
    void work();

    TrackFiles& files_;
    OrderedQueue<TrackedObjects> queue_;
    std::mutex mutex_;
    std::condition_variable changed_;
    size_t given_ = 0, written_ = 0;
    std::exception_ptr failure_;
    std::thread thread_;
};

}  // namespace sam3::cli
