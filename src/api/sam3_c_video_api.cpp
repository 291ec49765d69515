#include "api/c_handles.h"

#include <deque>
#include <optional>

using namespace sam3::api;

struct sam3_c_tracker {
    std::shared_ptr<sam3_c_session::Work> work;
    sam3_tracker_ptr tracker;
    std::optional<std::deque<sam3_result>> rest;  // frames that waited for the video's end, once it was said

    sam3_state& state() const { return *work->state; }
    const sam3_model& model() const { return *work->model; }
};

namespace {

sam3_tracker& tracker_of(const sam3_c_tracker* tracker) { return *given(tracker, "tracker")->tracker; }

sam3_c_tracker* new_tracker(const sam3_c_session& session, sam3_tracker_ptr tracker) {
    return tracker ? new sam3_c_tracker{session.work, std::move(tracker), {}} : nullptr;
}

}  // namespace

sam3_c_video_options sam3_c_default_video_options(void) {
    const sam3_video_params defaults;
    sam3_c_video_options out{};
    out.score_threshold = defaults.score_threshold;
    out.nms_threshold = defaults.nms_threshold;
    out.assoc_iou_threshold = defaults.assoc_iou_threshold;
    out.hotstart_delay = defaults.hotstart_delay;
    out.max_keep_alive = defaults.max_keep_alive;
    out.recondition_every = defaults.recondition_every;
    out.fill_hole_area = defaults.fill_hole_area;
    out.new_instance_threshold = defaults.new_instance_threshold;
    out.track_iou_threshold = defaults.track_iou_threshold;
    out.occlusion_iou_threshold = defaults.occlusion_iou_threshold;
    out.max_instances = defaults.max_instances;
    out.delayed = defaults.delayed ? 1 : 0;
    return out;
}

sam3_c_visual_options sam3_c_default_visual_options(void) {
    const sam3_visual_track_params defaults;
    return {defaults.fill_hole_area, defaults.non_overlapping ? 1 : 0, defaults.history};
}

sam3_c_tracker* sam3_c_create_tracker(sam3_c_session* session, const char* const* texts, size_t text_count,
                                      const sam3_c_video_options* options) {
    return guarded<sam3_c_tracker*>(nullptr, [&] {
        const auto& work = *given(session, "session")->work;
        const sam3_c_video_options rules = options != nullptr ? *options : sam3_c_default_video_options();
        sam3_video_params params;
        if (text_count > 0) given(texts, "texts");
        for (size_t i = 0; i < text_count; ++i) params.more_text_prompts.emplace_back(given(texts[i], "a text"));
        params.score_threshold = rules.score_threshold;
        params.nms_threshold = rules.nms_threshold;
        params.assoc_iou_threshold = rules.assoc_iou_threshold;
        params.hotstart_delay = rules.hotstart_delay;
        params.max_keep_alive = rules.max_keep_alive;
        params.recondition_every = rules.recondition_every;
        params.fill_hole_area = rules.fill_hole_area;
        params.new_instance_threshold = rules.new_instance_threshold;
        params.track_iou_threshold = rules.track_iou_threshold;
        params.occlusion_iou_threshold = rules.occlusion_iou_threshold;
        params.max_instances = rules.max_instances;
        params.delayed = rules.delayed != 0;
        return new_tracker(*session, sam3_create_tracker(*work.model, params));
    });
}

sam3_c_result* sam3_c_track_frame(sam3_c_tracker* tracker, const uint8_t* rgb, int width, int height) {
    return guarded<sam3_c_result*>(nullptr, [&] {
        sam3_tracker& video = tracker_of(tracker);
        tracker->rest.reset();
        return new_result(sam3_track_frame(video, tracker->state(), tracker->model(), rgb_image(rgb, width, height)));
    });
}

sam3_c_result* sam3_c_track_rest(sam3_c_tracker* tracker) {
    return guarded<sam3_c_result*>(nullptr, [&]() -> sam3_c_result* {
        sam3_tracker& video = tracker_of(tracker);
        if (!tracker->rest) {
            std::vector<sam3_result> waiting = sam3_tracker_finish(video);
            if (!last_error.empty()) return nullptr;
            tracker->rest.emplace(std::make_move_iterator(waiting.begin()), std::make_move_iterator(waiting.end()));
        }
        if (tracker->rest->empty()) return nullptr;
        sam3_c_result* next = new_result(std::move(tracker->rest->front()));
        tracker->rest->pop_front();
        return next;
    });
}

int sam3_c_add_text(sam3_c_tracker* tracker, const char* text) {
    return guarded(0, [&] { return sam3_tracker_add_text(tracker_of(tracker), given(text, "text")) ? 1 : 0; });
}
int sam3_c_remove_text(sam3_c_tracker* tracker, const char* text) {
    return guarded(0, [&] { return sam3_tracker_remove_text(tracker_of(tracker), given(text, "text")) ? 1 : 0; });
}

sam3_c_tracker* sam3_c_create_visual_tracker(sam3_c_session* session, const sam3_c_visual_options* options) {
    return guarded<sam3_c_tracker*>(nullptr, [&] {
        const auto& work = *given(session, "session")->work;
        sam3_visual_track_params params;
        if (options != nullptr) {
            params.fill_hole_area = options->fill_hole_area;
            params.non_overlapping = options->non_overlapping != 0;
            params.history = options->history;
        }
        return new_tracker(*session, sam3_create_visual_tracker(*work.model, params));
    });
}

int sam3_c_add_instance(sam3_c_tracker* tracker, const sam3_c_clicks* clicks) {
    return guarded(-1, [&] {
        sam3_tracker& video = tracker_of(tracker);
        const sam3_pvs_params params = params_of(*given(clicks, "clicks"));
        return sam3_tracker_add_instance(video, tracker->state(), tracker->model(), params);
    });
}

sam3_c_result* sam3_c_propagate_frame(sam3_c_tracker* tracker, const uint8_t* rgb, int width, int height) {
    return guarded<sam3_c_result*>(nullptr, [&] {
        sam3_tracker& video = tracker_of(tracker);
        const sam3_image frame = rgb_image(rgb, width, height);
        return new_result(sam3_propagate_frame(video, tracker->state(), tracker->model(), frame));
    });
}

sam3_c_result* sam3_c_propagate_to(sam3_c_tracker* tracker, const uint8_t* rgb, int width, int height, int frame,
                                   int reverse) {
    return guarded<sam3_c_result*>(nullptr, [&] {
        sam3_tracker& video = tracker_of(tracker);
        const sam3_image image = rgb_image(rgb, width, height);
        return new_result(sam3_propagate_to(video, tracker->state(), tracker->model(), image, frame, reverse != 0));
    });
}

int sam3_c_refine_instance(sam3_c_tracker* tracker, int id, const sam3_c_clicks* clicks) {
    return guarded(0, [&] {
        sam3_tracker& video = tracker_of(tracker);
        const sam3_pvs_params params = params_of(*given(clicks, "clicks"));
        if (params.use_box) sam3::fail("an instance is corrected by points, found a box");
        return sam3_refine_instance(video, tracker->state(), tracker->model(), id, params.pos_points, params.neg_points)
                   ? 1
                   : 0;
    });
}

int sam3_c_remove_instance(sam3_c_tracker* tracker, int id) {
    return guarded(0, [&] { return sam3_tracker_remove_instance(tracker_of(tracker), id) ? 1 : 0; });
}

int sam3_c_current_frame(const sam3_c_tracker* tracker) {
    return guarded(-1, [&] { return sam3_tracker_frame_index(tracker_of(tracker)); });
}

void sam3_c_reset_tracker(sam3_c_tracker* tracker) {
    guarded(0, [&] {
        sam3_tracker_reset(tracker_of(tracker));
        tracker->rest.reset();
        return 1;
    });
}

int sam3_c_save_tracker(const sam3_c_tracker* tracker, const char* path) {
    return guarded(0, [&] { return sam3_tracker_save(tracker_of(tracker), given(path, "path")) ? 1 : 0; });
}

int sam3_c_restore_tracker(sam3_c_tracker* tracker, const char* path) {
    return guarded(0, [&] {
        sam3_tracker& video = tracker_of(tracker);
        return sam3_tracker_restore(video, tracker->state(), given(path, "path")) ? 1 : 0;
    });
}

void sam3_c_free_tracker(sam3_c_tracker* tracker) { delete tracker; }
