#include "api/handles.h"
#include "engine/concept_tracker.h"
#include "engine/visual_tracker.h"
#include "media/video_reader.h"

#include <algorithm>
#include <utility>

// Video: catches, translates, and holds no logic.

using namespace sam3::api;

struct sam3_tracker {
    std::shared_ptr<const sam3::Model> model;
    bool visual = false;  // follows what is pointed at; else concepts
    sam3::ConceptVideoOptions concept_options;
    sam3::VisualVideoOptions visual_options;
    // One of them, made when the first state comes, whose session encodes the frames.
    std::unique_ptr<sam3::ConceptTracker> concepts;
    std::unique_ptr<sam3::VisualTracker> clicks;
};

namespace {

sam3::ConceptTracker& concepts_of(sam3_tracker& tracker, const sam3_state& state) {
    if (tracker.visual) sam3::fail("this tracker follows objects that are pointed at: use sam3_propagate_frame");
    if (!tracker.concepts)
        tracker.concepts = std::make_unique<sam3::ConceptTracker>(session_of(state), tracker.concept_options);
    return *tracker.concepts;
}

sam3::VisualTracker& clicks_of(sam3_tracker& tracker, const sam3_state& state) {
    if (!tracker.visual) sam3::fail("this tracker follows concepts: use sam3_track_frame");
    if (!tracker.clicks)
        tracker.clicks = std::make_unique<sam3::VisualTracker>(session_of(state), tracker.visual_options);
    return *tracker.clicks;
}

sam3_result from_frame(const sam3::VideoFrameResult& frame) {
    sam3_result out;
    out.frame_index = static_cast<int>(frame.frame);
    for (const sam3::VideoObject& object : frame.objects) {
        sam3_detection item = make_detection(object.id, object.box, object.mask, object.score, object.tracker_score);
        item.label = object.phrase;
        out.presence_score = std::max(out.presence_score, object.tracker_score);
        out.detections.push_back(std::move(item));
    }
    return out;
}

std::optional<int64_t> last_frame(const sam3_tracker& tracker) {
    if (tracker.concepts) return tracker.concepts->last_frame();
    if (tracker.clicks) return tracker.clicks->last_frame();
    return std::nullopt;
}

// The reader of this thread's last video, so that a loop over frames does not open the file again for each.
sam3::FrameSource& open_video(const std::string& path) {
    thread_local std::string open_path;
    thread_local std::unique_ptr<sam3::FrameSource> open_source;
    if (path == "-") sam3::fail("frames cannot be read from a pipe by number");
    if (!open_source || open_path != path) {
        open_source.reset();
        open_source = sam3::open_frames(path);
        open_path = path;
    }
    return *open_source;
}

}  // namespace

void sam3_tracker_deleter::operator()(sam3_tracker* tracker) const { delete tracker; }

sam3_tracker_ptr sam3_create_tracker(const sam3_model& model, const sam3_video_params& params) {
    return guarded(sam3_tracker_ptr(), [&] {
        if (!model.model) sam3::fail("this model was freed");
        model.model->detector();
        model.model->tracker();
        sam3_tracker_ptr tracker(new sam3_tracker);
        tracker->model = model.model;
        sam3::ConceptVideoOptions& options = tracker->concept_options;
        if (!params.text_prompt.empty()) options.phrases.push_back(params.text_prompt);
        options.phrases.insert(options.phrases.end(), params.more_text_prompts.begin(), params.more_text_prompts.end());
        if (options.phrases.empty()) sam3::fail("there is nothing to look for: give text_prompt");
        options.delayed = params.delayed;
        sam3::ConceptVideoConfig& rules = options.rules;
        rules = model.model->video_rules();
        rules.score_threshold_detection = params.score_threshold;
        rules.det_nms_thresh = params.nms_threshold;
        rules.assoc_iou_thresh = params.assoc_iou_threshold;
        rules.trk_assoc_iou_thresh = params.track_iou_threshold;
        rules.new_det_thresh = params.new_instance_threshold;
        rules.hotstart_delay = params.hotstart_delay;
        rules.hotstart_unmatch_thresh = std::min(rules.hotstart_unmatch_thresh, std::max(params.hotstart_delay, 0));
        rules.hotstart_dup_thresh = std::min(rules.hotstart_dup_thresh, std::max(params.hotstart_delay, 0));
        rules.max_trk_keep_alive = params.max_keep_alive;
        rules.init_trk_keep_alive = std::min(rules.init_trk_keep_alive, params.max_keep_alive);
        rules.recondition_every_nth_frame = params.recondition_every;
        rules.fill_hole_area = params.fill_hole_area;
        rules.suppress_overlapping_based_on_recent_occlusion_threshold = params.occlusion_iou_threshold;
        rules.max_num_objects = params.max_instances;
        rules.validate("sam3_video_params");
        return tracker;
    });
}

sam3_tracker_ptr sam3_create_visual_tracker(const sam3_model& model, const sam3_visual_track_params& params) {
    return guarded(sam3_tracker_ptr(), [&] {
        if (!model.model) sam3::fail("this model was freed");
        model.model->tracker();
        if (params.history < 1) sam3::fail("history must be at least 1, found ", params.history);
        sam3_tracker_ptr tracker(new sam3_tracker);
        tracker->model = model.model;
        tracker->visual = true;
        tracker->visual_options.clean_up_area = std::max(params.fill_hole_area, 0);
        tracker->visual_options.separate = params.non_overlapping;
        tracker->visual_options.limits.history = params.history;
        return tracker;
    });
}

sam3_result sam3_track_frame(sam3_tracker& tracker, sam3_state& state, const sam3_model&, const sam3_image& frame) {
    return guarded(sam3_result(), [&] {
        const std::vector<sam3::VideoFrameResult> finished = concepts_of(tracker, state).push(to_image(frame));
        return finished.empty() ? sam3_result() : from_frame(finished.back());
    });
}

std::vector<sam3_result> sam3_tracker_finish(sam3_tracker& tracker) {
    return guarded(std::vector<sam3_result>(), [&] {
        std::vector<sam3_result> results;
        if (tracker.concepts)
            for (const sam3::VideoFrameResult& frame : tracker.concepts->finish()) results.push_back(from_frame(frame));
        return results;
    });
}

bool sam3_tracker_add_text(sam3_tracker& tracker, const std::string& text_prompt) {
    return guarded(false, [&] {
        if (tracker.visual) sam3::fail("this tracker follows objects that are pointed at, not concepts");
        if (tracker.concepts)
            tracker.concepts->add_phrase(text_prompt);
        else
            tracker.concept_options.phrases.push_back(text_prompt);
        return true;
    });
}

bool sam3_tracker_remove_text(sam3_tracker& tracker, const std::string& text_prompt) {
    return guarded(false, [&] {
        const std::vector<std::string> phrases =
            tracker.concepts ? tracker.concepts->phrases() : tracker.concept_options.phrases;
        if (std::count(phrases.begin(), phrases.end(), text_prompt) == 0)
            sam3::fail("this tracker does not look for '", text_prompt, "'");
        if (tracker.concepts) tracker.concepts->remove_phrase(text_prompt);
        std::erase(tracker.concept_options.phrases, text_prompt);
        return true;
    });
}

int sam3_tracker_add_instance(sam3_tracker& tracker, sam3_state& state, const sam3_model&,
                              const sam3_pvs_params& prompt) {
    return guarded(-1, [&] {
        sam3::VisualTracker& clicks = clicks_of(tracker, state);
        if (!clicks.last_frame()) {
            if (!session_of(state)->encoded())
                sam3::fail("there is no frame to point at: call sam3_encode_image with the first one");
            clicks.assume_encoded(0);
        }
        const std::vector<int>& ids = clicks.ids();
        const int id = ids.empty() ? 0 : *std::max_element(ids.begin(), ids.end()) + 1;
        clicks.prompt(id, to_query(prompt));
        return id;
    });
}

sam3_result sam3_propagate_frame(sam3_tracker& tracker, sam3_state& state, const sam3_model& model,
                                 const sam3_image& frame) {
    const auto last = static_cast<int>(last_frame(tracker).value_or(-1));
    return sam3_propagate_to(tracker, state, model, frame, last + 1, false);
}

sam3_result sam3_propagate_to(sam3_tracker& tracker, sam3_state& state, const sam3_model&, const sam3_image& frame,
                              int frame_index, bool reverse) {
    return guarded(sam3_result(),
                   [&] { return from_frame(clicks_of(tracker, state).track(to_image(frame), frame_index, reverse)); });
}

bool sam3_refine_instance(sam3_tracker& tracker, sam3_state& state, const sam3_model&, int instance_id,
                          const std::vector<sam3_point>& pos_points, const std::vector<sam3_point>& neg_points) {
    return guarded(false, [&] {
        sam3_pvs_params params;
        params.pos_points = pos_points;
        params.neg_points = neg_points;
        const sam3::VisualQuery query = to_query(params);
        if (tracker.visual) {
            sam3::VisualTracker& clicks = clicks_of(tracker, state);
            if (std::count(clicks.ids().begin(), clicks.ids().end(), instance_id) == 0)
                sam3::fail("there is no instance ", instance_id, " to correct");
            clicks.prompt(instance_id, query, /*keep_old=*/true);
        } else {
            concepts_of(tracker, state).refine(instance_id, query);
        }
        return true;
    });
}

bool sam3_tracker_remove_instance(sam3_tracker& tracker, int instance_id) {
    return guarded(false, [&] {
        const std::vector<int> ids = tracker.concepts ? tracker.concepts->ids()
                                     : tracker.clicks ? tracker.clicks->ids()
                                                      : std::vector<int>();
        if (std::count(ids.begin(), ids.end(), instance_id) == 0)
            sam3::fail("there is no instance ", instance_id, " to remove");
        if (tracker.concepts) tracker.concepts->remove(instance_id);
        if (tracker.clicks) tracker.clicks->remove(instance_id);
        return true;
    });
}

int sam3_tracker_frame_index(const sam3_tracker& tracker) { return static_cast<int>(last_frame(tracker).value_or(-1)); }

void sam3_tracker_reset(sam3_tracker& tracker) {
    guarded(false, [&] {
        if (tracker.concepts) tracker.concepts->reset();
        if (tracker.clicks) tracker.clicks->reset();
        return true;
    });
}

bool sam3_tracker_save(const sam3_tracker& tracker, const std::string& path) {
    return guarded(false, [&] {
        if (tracker.concepts)
            tracker.concepts->save(path);
        else if (tracker.clicks)
            tracker.clicks->save(path);
        else
            sam3::fail("the tracker has seen no frame yet: there is nothing to save");
        return true;
    });
}

bool sam3_tracker_restore(sam3_tracker& tracker, sam3_state& state, const std::string& path) {
    return guarded(false, [&] {
        if (tracker.visual)
            clicks_of(tracker, state).restore(path);
        else
            concepts_of(tracker, state).restore(path);
        return true;
    });
}

sam3_video_info sam3_get_video_info(const std::string& video_path) {
    return guarded(sam3_video_info(), [&] {
        sam3::FrameSource& video = open_video(video_path);
        const sam3::VideoInfo& info = video.info();
        sam3_video_info out;
        out.width = info.width;
        out.height = info.height;
        out.n_frames = static_cast<int>(video.count_frames());
        out.fps = static_cast<float>(info.fps.value());
        return out;
    });
}

sam3_image sam3_decode_video_frame(const std::string& video_path, int frame_index) {
    return guarded(sam3_image(), [&] { return from_image(open_video(video_path).frame(frame_index)); });
}
