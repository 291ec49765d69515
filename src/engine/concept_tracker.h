#pragma once

#include "engine/concept_outputs.h"
#include "engine/image_session.h"
#include "engine/object_tracker.h"

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sam3 {

struct ConceptVideoOptions {
    std::vector<std::string> phrases;
    ConceptVideoConfig rules{};
    int64_t total_frames = -1;  // of the video; -1: not known, as with a stream
    bool reverse = false;       // frames come last to first
    // Results wait for the hot start, so that objects which were a mistake are never seen. Else each comes with its
    // frame and no object is removed.
    bool delayed = true;
    int most_detections = 0;  // of a phrase on a frame: the best so many, before they are compared; 0: all
    BankLimits limits{};
};

// Finds the objects that phrases name and follows them through a video, frame by frame: detector and tracker together
// by the rules of transformers' Sam3VideoModel. Holds nothing that grows with the number of frames.
// A session: belongs to one thread at a time.
class ConceptTracker {
public:
    // The session may be used for other work between frames.
    ConceptTracker(std::shared_ptr<ImageSession> session, const ConceptVideoOptions& options);

    // The next frame; `index` may skip frames. Gives the frames that are now finished, oldest first: none, or one.
    std::vector<VideoFrameResult> push(const Image& image, std::optional<int64_t> index = {});
    // The same with the image that the session has encoded last: trackers that share a session can share a frame.
    std::vector<VideoFrameResult> push_encoded(std::optional<int64_t> index = {});
    // The frames that were still held back.
    std::vector<VideoFrameResult> finish();
    // After finish(): goes on with another frame in this direction, with the objects there are.
    void turn(bool reverse);
    bool reverse() const { return options_.reverse; }

    // From the next frame on; objects keep the phrase that found them. A known phrase is not added again.
    void add_phrase(const std::string& phrase);
    // Its objects go too; nothing happens when there is none.
    void remove_phrase(const std::string& phrase);
    std::vector<std::string> phrases() const;  // that are looked for

    // Corrects an object by clicks on the last frame that was pushed, in its pixels; they join earlier clicks on it.
    // The object's mask, its memory and its pointer change, and what spoke for removing it is forgotten. Gives the
    // frame anew.
    VideoFrameResult refine(int id, const VisualQuery& query);
    void remove(int id);  // from results that are held back too; nothing happens when there is none
    void reset();         // forgets frames and objects, not the phrases

    std::vector<int> ids() const { return book_.ids(); }
    const ConceptVideoConfig& rules() const { return book_.rules(); }
    std::optional<int64_t> last_frame() const { return last_; }
    size_t memory_bytes() const { return tracker_.memory_bytes(); }
    ImageSession& session() { return *session_; }

    // Everything the next frame depends on: the same frames after restoring give the same results bit for bit. Rules,
    // phrases, direction and delay become those of the file.
    void save(const std::string& path) const;
    void restore(const std::string& path);

private:
    struct Phrase {
        std::string text;
        bool active = true;  // an object may still name a phrase that is no longer looked for
    };

    int64_t next_frame(std::optional<int64_t> index) const;
    StepOptions step_options() const;
    std::vector<ConceptPrompt> prompts() const;
    FrameDetections detect(std::span<const ConceptPrompt> prompts, const StartedConcepts& started);
    FrameTracks follow(int64_t frame);
    void carry_out(int64_t frame, const FramePlan& plan, const FrameDetections& detections);
    std::vector<VideoFrameResult> rendered(const std::vector<PendingFrame>& frames) const;

    const Model& model() const { return session_->model(); }

    std::shared_ptr<ImageSession> session_;
    ConceptVideoOptions options_;  // without phrases and rules
    std::vector<Phrase> phrases_;  // by number; never shrinks
    ObjectTracker tracker_;
    ConceptBook book_;
    OutputQueue queue_;
    PendingFrame latest_;          // shares its masks with the queue
    std::optional<int64_t> last_;  // frame pushed
    uint64_t encoding_ = 0;        // the session's, of that frame
    int64_t pushed_ = 0;
};

}  // namespace sam3
