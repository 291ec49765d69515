#pragma once

#include "media/ffmpeg.h"

#include <string>
#include <vector>

namespace sam3 {

// Where the frames of a video stream are, learned from its packets without decoding them.
class FrameIndex {
public:
    struct Key {
        int64_t pts = 0;
        int64_t dts = 0;
        int64_t packet = 0;  // its number among the stream's packets
    };

    FrameIndex() = default;
    // Reads `input` to its end.
    FrameIndex(AVFormatContext* input, const AVStream* stream);

    // False when the time stamps do not tell frames apart or packets need not be frames: then frames can only be
    // counted while they are decoded.
    bool usable() const { return usable_; }
    int64_t count() const { return static_cast<int64_t>(frames_.size()); }
    int64_t pts_of(int64_t frame) const { return frames_[static_cast<size_t>(frame)].pts; }
    int64_t end_pts() const { return end_pts_; }  // when the last frame ends

    // The frame that is shown at `pts`, or -1.
    int64_t find(int64_t pts) const;
    // Key frames in the order of decoding. `frame` can be decoded from the returned one and from all before it.
    int64_t key_before(int64_t frame) const;
    int64_t find_key(int64_t pts) const;  // or -1
    const Key& key(int64_t number) const { return keys_[static_cast<size_t>(number)]; }

    // Makes the frame at `pts` number 0: those before it need a frame from before the start of the file. An index that
    // does not know this frame is not usable.
    void start_at(int64_t pts);

    // How many packets are there and not cut off.
    int64_t packets() const { return packets_; }
    // Why the stream ends early, as a sentence without the file's name; empty when it is whole.
    const std::string& damage() const { return damage_; }

private:
    struct Frame {
        int64_t pts = 0;
        int64_t packet = 0;
    };
    void add(const AVPacket& packet, AVCodecID codec);
    bool sort();

    std::vector<Frame> frames_;  // in the order of showing
    std::vector<Key> keys_;
    int64_t packets_ = 0;
    int64_t end_pts_ = INT64_MIN;
    bool timed_ = true;  // every packet has a time
    bool usable_ = false;
    std::string damage_;
};

}  // namespace sam3
