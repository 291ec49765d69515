#pragma once

#include "engine/mask_rules.h"
#include "models/video_config.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

// The bookkeeping between detector and tracker of a text-prompted video, as transformers' Sam3VideoModel has it: which
// detections are new objects, which tracks go, which are hidden, whose memory is renewed. No network.
namespace sam3 {

inline constexpr float kDetectionInside = 0.5F;  // logit from which a detection's pixel belongs to a new object

// What the detector found on a frame, all phrases together; new objects get their ids in this order.
struct FrameDetections {
    Tensor masks;  // stack (mask_rules.h)
    std::vector<float> scores;
    std::vector<int> phrases;
};

// Adds those of one phrase's detections that count (mask_rules.h), in the order given.
void append_detections(const ConceptVideoConfig& rules, int phrase, std::span<const float> scores, const Tensor& stack,
                       FrameDetections& out);

// What the tracker says of all tracks on a frame, in the order of their ids.
struct FrameTracks {
    Tensor masks;                      // stack; planning empties masks in it
    std::vector<float> object_scores;  // logits
};

struct FrameMoment {
    int64_t frame = 0;
    bool reverse = false;
    bool streaming = false;  // results are shown at once: nothing is removed or hidden for being unmatched
};

// How the detections and tracks of a frame overlap; only those of one phrase are compared.
struct Association {
    std::vector<int> new_detections;        // indices
    std::vector<int> unmatched, empty;      // ids
    std::vector<std::vector<int>> matches;  // ids by detection; empty when there is nothing to match
    std::map<int, int> confirmed;           // id -> the sure detection that fits it best
};

// ids and phrases of the tracks in the order of their masks.
Association associate(const ConceptVideoConfig& rules, const FrameDetections& detections, std::span<const Mask> tracks,
                      std::span<const int> ids, std::span<const int> phrases, int threads = 1);

// What is to be done about a frame.
struct FramePlan {
    std::vector<int> ids;                      // tracks there were
    std::vector<int> new_detections, new_ids;  // indices and the ids they get
    std::vector<int> removed, hidden;          // ids; hidden on this frame only
    std::map<int, int> reconditioned;          // id -> detection
    Tensor memory_masks;                       // stack for `ids`
    std::vector<bool> seen;                    // whether a memory mask has anything inside
};

// One object on one frame, before it is enlarged.
struct FrameObject {
    int id = 0;
    int phrase = 0;
    float score = 0;          // of the detection it began with
    float tracker_score = 0;  // probability that it is there; of a new object the detection's score
    Tensor logits{};          // host [h, w]
};

// What the rules know of the tracks of a video. Its size depends on the number of tracks alone, not on that of frames:
// where the reference keeps lists of frames, this keeps their lengths, and nothing of a removed track.
class ConceptBook {
public:
    struct Track {
        int id = 0;
        int phrase = 0;
        float score = 0;
        int64_t first_frame = 0;
        int64_t unmatched = 0;  // frames
        int keep_alive = 0;
        std::optional<int64_t> last_hidden{};  // frame; kNever; absent until the first frame it was tracked on
    };
    static constexpr int64_t kNever = -1;

    // shift_on_removal: on a frame on which a track is removed, the tracks behind it show the mask and the score of the
    // track before them, as transformers has it.
    ConceptBook(const ConceptVideoConfig& rules, bool shift_on_removal);

    const ConceptVideoConfig& rules() const { return rules_; }
    const std::vector<Track>& tracks() const { return tracks_; }
    std::vector<int> ids() const;

    // Brings the book up to date and says what the tracker has to do. Empties masks of `tracks` that give way to
    // another, and puts a detection in place of a track's mask where the rules want the tracker corrected.
    FramePlan plan(const FrameMoment& when, const FrameDetections& detections, FrameTracks& tracks, int threads = 1);
    // What is to be seen on the frame just planned, by ascending id; masks with nothing inside are left out.
    std::vector<FrameObject> visible(const FramePlan& plan, const FrameDetections& detections,
                                     const FrameTracks& tracks, int threads = 1) const;

    void vouch_for(int id);  // a person says that it is real: what speaks for removing or hiding it is forgotten
    void remove(int id);
    void clear();

    nlohmann::json to_json() const;
    void from_json(const nlohmann::json& json);  // fails with a sentence when it is not what to_json wrote

private:
    Track* find(int id);
    void forget_shared(int id);
    std::vector<int> phrases() const;
    void add_tracks(const FrameMoment& when, const FrameDetections& detections, FramePlan& plan);
    void count_matches(const Association& association, bool reverse);
    void judge(const FrameMoment& when, FramePlan& plan) const;
    void suppress_recently_hidden(const FrameMoment& when, const FramePlan& plan, std::span<const Mask> shapes,
                                  const Tensor& masks, int threads);
    void write_memories(const FrameDetections& detections, FramePlan& plan, const Tensor& masks, int threads) const;

    ConceptVideoConfig rules_;
    bool shift_on_removal_;
    std::vector<Track> tracks_;                      // in the order of the tracker's objects
    std::map<std::pair<int, int>, int64_t> shared_;  // (older, younger) -> frames on which they shared a detection
    int next_id_ = 0;
};

}  // namespace sam3
