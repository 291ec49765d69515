#pragma once

#include "engine/concept_outputs.h"
#include "engine/image_session.h"
#include "engine/object_tracker.h"

#include <memory>
#include <optional>
#include <vector>

namespace sam3 {

struct VisualVideoOptions {
    int64_t total_frames = -1;  // of the video; -1: not known, as with a stream
    BankLimits limits{};
    int clean_up_area = 0;  // holes and specks of at most so many pixels, at the decoder's resolution, go; 0: none
    bool separate = false;  // a pixel that several objects claim goes to the surest of them
};

// Follows what a person points at through a video: say where objects are on any frame, then track frame by frame in
// either direction. A later prompt on a tracked frame corrects an object; tracking on from there carries it along.
// A session: belongs to one thread at a time.
class VisualTracker {
public:
    // The session encodes the frames; it may be used for other things between two calls.
    explicit VisualTracker(std::shared_ptr<ImageSession> session, const VisualVideoOptions& options = {});

    // Says where an object is, in pixels of the frame, and answers for this object alone. A new id makes a new object.
    // keep_old: the points join those given earlier for the frame, and may all be negative.
    VideoFrameResult prompt(const Image& image, int64_t frame, int id, const VisualQuery& query, bool keep_old = false);
    // The same on the frame that was looked at last.
    VideoFrameResult prompt(int id, const VisualQuery& query, bool keep_old = false);

    // Outlines every object on the frame next to the one before (reverse: the frame before it).
    VideoFrameResult track(const Image& image, int64_t frame, bool reverse = false);

    const std::vector<int>& ids() const { return tracker_.ids(); }
    void remove(int id) { tracker_.remove(id); }
    void reset();
    size_t memory_bytes() const { return tracker_.memory_bytes(); }
    // The image that the session has encoded already is this frame.
    void assume_encoded(int64_t frame);
    std::optional<int64_t> last_frame() const { return last_; }  // that was looked at

    // Everything the next frame depends on; the same frames after restoring give the same results bit for bit.
    void save(const std::string& path) const;
    void restore(const std::string& path);

private:
    void look_at(const Image& image, int64_t frame);
    const InteractiveFeatures& features();
    TrackPrompt prompt_of(const VisualQuery& query, bool correction);
    VideoFrameResult result_of(const TrackedFrame& tracked, int64_t frame);

    std::shared_ptr<ImageSession> session_;
    VisualVideoOptions options_;
    ObjectTracker tracker_;
    std::optional<int64_t> last_;
    uint64_t encoding_ = 0;  // which of the session's encodings was of that frame; 0: none
};

}  // namespace sam3
