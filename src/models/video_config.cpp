#include "models/video_config.h"

#include "models/json_section.h"
#include "util/error.h"

#include <cmath>
#include <type_traits>

namespace sam3 {

namespace {

// Calls visit(name, value) for every rule; the one place that knows their names.
template <typename Config, typename Visit>
void each_rule(Config& config, Visit visit) {
    visit("score_threshold_detection", config.score_threshold_detection);
    visit("det_nms_thresh", config.det_nms_thresh);
    visit("assoc_iou_thresh", config.assoc_iou_thresh);
    visit("trk_assoc_iou_thresh", config.trk_assoc_iou_thresh);
    visit("new_det_thresh", config.new_det_thresh);
    visit("recondition_every_nth_frame", config.recondition_every_nth_frame);
    visit("high_conf_thresh", config.high_conf_thresh);
    visit("high_iou_thresh", config.high_iou_thresh);
    visit("recondition_on_trk_masks", config.recondition_on_trk_masks);
    visit("hotstart_delay", config.hotstart_delay);
    visit("hotstart_unmatch_thresh", config.hotstart_unmatch_thresh);
    visit("hotstart_dup_thresh", config.hotstart_dup_thresh);
    visit("init_trk_keep_alive", config.init_trk_keep_alive);
    visit("max_trk_keep_alive", config.max_trk_keep_alive);
    visit("min_trk_keep_alive", config.min_trk_keep_alive);
    visit("suppress_unmatched_only_within_hotstart", config.suppress_unmatched_only_within_hotstart);
    visit("decrease_trk_keep_alive_for_empty_masklets", config.decrease_trk_keep_alive_for_empty_masklets);
    visit("suppress_overlapping_based_on_recent_occlusion_threshold",
          config.suppress_overlapping_based_on_recent_occlusion_threshold);
    visit("fill_hole_area", config.fill_hole_area);
    visit("max_num_objects", config.max_num_objects);
}

}  // namespace

ConceptVideoConfig ConceptVideoConfig::from_json(const Json& json, const std::string& path) {
    const JsonSection root(json, "", path);
    ConceptVideoConfig config;
    each_rule(config, [&](const char* name, auto& value) {
        if constexpr (std::is_same_v<decltype(value), bool&>)
            root.flag(name, value);
        else
            root.number(name, value);
    });
    config.validate(path);
    return config;
}

Json ConceptVideoConfig::to_json() const {
    Json json = Json::object();
    each_rule(*this, [&](const char* name, const auto& value) { json[name] = value; });
    return json;
}

void ConceptVideoConfig::validate(const std::string& where) const {
    each_rule(*this, [&](const char* name, const auto& value) {
        if constexpr (std::is_same_v<decltype(value), const float&>)
            if (!std::isfinite(value)) fail(where, ": ", name, " must be a finite number, found ", value);
    });
    if (score_threshold_detection < 0 || score_threshold_detection > 1)
        fail(where, ": score_threshold_detection must lie between 0 and 1, found ", score_threshold_detection);
    if (hotstart_delay < 0) fail(where, ": hotstart_delay must not be negative, found ", hotstart_delay);
    if (hotstart_delay > 0 && hotstart_unmatch_thresh > hotstart_delay)
        fail(where, ": hotstart_unmatch_thresh must not exceed hotstart_delay (", hotstart_delay, "), found ",
             hotstart_unmatch_thresh, ": a track could never be unmatched for so long within the hot start");
    if (hotstart_delay > 0 && hotstart_dup_thresh > hotstart_delay)
        fail(where, ": hotstart_dup_thresh must not exceed hotstart_delay (", hotstart_delay, "), found ",
             hotstart_dup_thresh, ": a track could never be a duplicate for so long within the hot start");
    if (min_trk_keep_alive > max_trk_keep_alive)
        fail(where, ": min_trk_keep_alive must not exceed max_trk_keep_alive (", max_trk_keep_alive, "), found ",
             min_trk_keep_alive);
    if (max_num_objects < 1) fail(where, ": max_num_objects must be at least 1, found ", max_num_objects);
}

}  // namespace sam3
