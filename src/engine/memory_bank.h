#pragma once

#include "models/memory_tracker.h"
#include "models/sam3_config.h"

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace sam3 {

struct BankLimits {
    int history = 16;  // frames kept on either side of the current frame and of the one where the pass began
};

// Where in a video a frame is looked at.
struct Moment {
    int64_t frame = 0;
    bool reverse = false;       // time runs backwards
    int64_t total_frames = -1;  // of the video; -1: not known, as with a stream
};

// What one object remembers, by frame. Pure bookkeeping: which memories attention sees and which are let go.
class MemoryBank {
public:
    struct Entry {
        Tensor tokens{};         // [H*W, M] bf16; undefined until the memory is written, and after it was dropped
        Tensor pointer{};        // [C]
        Tensor masks{};          // [h, w] logits, the frame's answer; of conditioning frames and the current one only
        float object_score = 0;  // logit
        float quality = 0;       // 0..1, for the choice of memories
        bool conditioning = false;
        bool by_person = false;  // a conditioning frame that a person gave; else a detector or the tracker itself
    };
    using Entries = std::map<int64_t, Entry>;

    const Entries& entries() const { return entries_; }
    const Entry* find(int64_t frame) const;
    Entry* find(int64_t frame);
    void put(int64_t frame, Entry entry) { entries_[frame] = std::move(entry); }
    // Whether there is anything to follow the object with.
    bool can_track() const;

    // What attention sees on a frame (transformers' order is not kept: attention does not depend on it).
    ObjectMemory recall(const MemoryConfig& config, const Behaviour& behaviour, const Moment& moment) const;

    // Lets go of what recall can no longer use near `frame` or near `start`, where the current pass began: memories and
    // pointers further away than the limits. Conditioning frames given by a person stay for ever; of the automatic ones
    // the first, the nearest and those within the limits. With Behaviour::all_conditioning_pointers the pointers of the
    // others stay too, the oldest of more than 256 dropped.
    void prune(const MemoryConfig& config, const Behaviour& behaviour, const BankLimits& limits, int64_t frame,
               int64_t start);

    size_t bytes() const;

private:
    using FrameSet = std::set<int64_t>;
    FrameSet closest_conditioning(int64_t frame, int most) const;
    std::vector<int64_t> good_frames(int64_t frame, bool reverse, int most) const;
    void recall_in_window(const MemoryConfig& config, bool all_pointers, const Moment& moment, const FrameSet& selected,
                          int reach, ObjectMemory& memory) const;
    void recall_the_good(const MemoryConfig& config, const Moment& moment, const FrameSet& selected, int reach,
                         ObjectMemory& memory) const;

    Entries entries_;
};

// Frames as merged intervals: its size depends on the number of gaps, not of frames.
class FrameIntervals {
public:
    void add(int64_t frame) { add(frame, frame); }
    void add(int64_t first, int64_t last);  // both included
    bool contains(int64_t frame) const;
    const std::map<int64_t, int64_t>& intervals() const { return intervals_; }  // first -> last

private:
    std::map<int64_t, int64_t> intervals_;
};

}  // namespace sam3
