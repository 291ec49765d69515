#pragma once

#include "engine/concept_heuristics.h"
#include "mask/geometry.h"
#include "runtime/ops.h"

#include <deque>
#include <span>
#include <string>
#include <vector>

// From what the rules leave visible to masks of the video's size.
namespace sam3 {

struct VideoObject {
    int id = 0;
    std::string phrase;
    float score = 0;          // of the detection it began with
    float tracker_score = 0;  // probability that it is there on this frame
    Box box;                  // around the mask before others took their pixels
    Mask mask;                // of the video's size; objects of one phrase do not overlap
};

struct VideoFrameResult {
    int64_t frame = 0;
    std::vector<VideoObject> objects;  // by ascending id
};

// A frame whose results may still change; holds masks at the decoder's resolution only.
struct PendingFrame {
    int64_t frame = 0;
    int width = 0, height = 0;  // of the video
    std::vector<FrameObject> objects;
};

VideoFrameResult render(const PendingFrame& frame, std::span<const std::string> phrases, Ops& ops);

// Holds results back until the hot start has shown which objects were a mistake.
class OutputQueue {
public:
    explicit OutputQueue(int delay) : delay_(delay) {}  // frames; 0 or 1: nothing waits

    void push(PendingFrame frame) { frames_.push_back(std::move(frame)); }
    void forget(int id);                     // an object that should never have been
    std::vector<PendingFrame> take_ready();  // oldest first
    std::vector<PendingFrame> take_all();

    std::deque<PendingFrame>& frames() { return frames_; }
    const std::deque<PendingFrame>& frames() const { return frames_; }

private:
    int delay_;
    std::deque<PendingFrame> frames_;
};

}  // namespace sam3
