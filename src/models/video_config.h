#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace sam3 {

// How detector and tracker work together on a video: every rule of transformers' Sam3VideoConfig, with its names and
// defaults. A detection is what the detector finds on one frame; a track is an object followed through frames.
struct ConceptVideoConfig {
    float score_threshold_detection = 0.5F;  // detections above it count
    float det_nms_thresh = 0.1F;             // of two detections that overlap more, the weaker goes; 0: both stay
    float assoc_iou_thresh = 0.1F;           // a detection that overlaps a track so much is not a new object
    float trk_assoc_iou_thresh = 0.5F;       // a track that no detection overlaps so much is unmatched
    float new_det_thresh = 0.7F;             // score that a new object needs where there already are others

    // Reconditioning: a sure detection that agrees with a track renews the track's memory.
    int recondition_every_nth_frame = 16;  // 0: never
    float high_conf_thresh = 0.8F;         // the detection's score, and the track's object score as a logit
    float high_iou_thresh = 0.8F;
    bool recondition_on_trk_masks = true;  // the memory is made of the track's own mask; else of the detection's

    // Hot start: results wait until the first frames have shown which tracks are worth keeping.
    int hotstart_delay = 15;          // frames; 0: off
    int hotstart_unmatch_thresh = 8;  // a track unmatched on so many frames in this time is removed
    int hotstart_dup_thresh = 8;      // and so is one that shares its detections with an older track

    // Keep-alive: a counter that matched frames raise and unmatched frames lower; a track at 0 can be hidden.
    int init_trk_keep_alive = 30;
    int max_trk_keep_alive = 30;
    int min_trk_keep_alive = -1;
    bool suppress_unmatched_only_within_hotstart = true;      // true: a track at 0 stays visible
    bool decrease_trk_keep_alive_for_empty_masklets = false;  // frames on which a track is empty lower it too

    // Of two tracks that overlap so much, the one hidden last is hidden again; 0: off.
    float suppress_overlapping_based_on_recent_occlusion_threshold = 0.7F;
    int fill_hole_area = 16;      // holes and specks of at most so many pixels at the decoder's resolution; 0: off
    int max_num_objects = 10000;  // followed at a time

    // From the top level of a Hugging Face config.json of type sam3_video; other fields are ignored and missing ones
    // keep their default. Fails naming the field that is wrong. `path` is for the message.
    static ConceptVideoConfig from_json(const nlohmann::json& json, const std::string& path);
    nlohmann::json to_json() const;  // what from_json reads back to the same values

    // Fails with a sentence that begins with `where` when values contradict each other.
    void validate(const std::string& where) const;

    bool operator==(const ConceptVideoConfig&) const = default;
};

}  // namespace sam3
