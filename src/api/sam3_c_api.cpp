#include "api/c_handles.h"

using namespace sam3::api;

struct sam3_c_model {
    std::shared_ptr<sam3_model> model;
};

struct sam3_c_picture {
    sam3_image image;
};

namespace {

bool is_positive(const uint8_t* positive, size_t index) { return positive == nullptr || positive[index] != 0; }
sam3_box box_of(const sam3_c_box& box) { return {box.x0, box.y0, box.x1, box.y1}; }

sam3_c_picture* new_picture(sam3_image image) {
    return image.width > 0 ? new sam3_c_picture{std::move(image)} : nullptr;
}

}  // namespace

namespace sam3::api {

sam3_c_result* new_result(sam3_result result) {
    return last_error.empty() ? new sam3_c_result{std::move(result)} : nullptr;
}

sam3_image rgb_image(const uint8_t* rgb, int width, int height) {
    if (width <= 0 || height <= 0) fail("expected a picture of at least 1 x 1 pixel, found ", width, " x ", height);
    sam3_image image;
    image.width = width;
    image.height = height;
    given(rgb, "rgb");
    image.data.assign(rgb, rgb + static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
    return image;
}

sam3_pvs_params params_of(const sam3_c_clicks& clicks) {
    sam3_pvs_params params;
    if (clicks.point_count > 0) given(clicks.points, "points");
    for (size_t i = 0; i < clicks.point_count; ++i)
        (is_positive(clicks.positive, i) ? params.pos_points : params.neg_points)
            .push_back({clicks.points[i].x, clicks.points[i].y});
    if (clicks.box != nullptr) {
        params.box = box_of(*clicks.box);
        params.use_box = true;
    }
    return params;
}

}  // namespace sam3::api

const char* sam3_c_version(void) { return sam3_version(); }
const char* sam3_c_last_error(void) { return sam3_last_error(); }

sam3_c_model* sam3_c_load_model(const char* path, const char* behaviour) {
    return sam3_c_load_model_on(path, behaviour, nullptr, nullptr);
}

sam3_c_model* sam3_c_load_model_on(const char* path, const char* behaviour, const char* device, const char* precision) {
    return guarded<sam3_c_model*>(nullptr, [&] {
        sam3_params params;
        params.model_path = given(path, "path");
        if (behaviour != nullptr) params.behaviour = behaviour;
        if (device != nullptr) params.device = device;
        if (precision != nullptr) params.precision = precision;
        auto model = sam3_load_model(params);
        return model ? new sam3_c_model{std::move(model)} : nullptr;
    });
}

int sam3_c_is_visual_only(const sam3_c_model* model) {
    return guarded(0, [&] { return sam3_is_visual_only(*given(model, "model")->model) ? 1 : 0; });
}

void sam3_c_free_model(sam3_c_model* model) { delete model; }

sam3_c_session* sam3_c_create_session(const sam3_c_model* model, int threads) {
    return guarded<sam3_c_session*>(nullptr, [&] {
        sam3_params params;
        params.n_threads = threads;
        auto work = std::make_shared<sam3_c_session::Work>();
        work->model = given(model, "model")->model;
        work->state = sam3_create_state(*work->model, params);
        return work->state ? new sam3_c_session{std::move(work)} : nullptr;
    });
}

void sam3_c_free_session(sam3_c_session* session) { delete session; }

int sam3_c_encode_rgb(sam3_c_session* session, const uint8_t* rgb, int width, int height) {
    return guarded(0, [&] {
        const auto& work = *given(session, "session")->work;
        return sam3_encode_image(*work.state, *work.model, rgb_image(rgb, width, height)) ? 1 : 0;
    });
}

sam3_c_result* sam3_c_segment_concept(sam3_c_session* session, const char* text, const sam3_c_box* boxes,
                                      const uint8_t* positive, size_t box_count, float threshold) {
    return guarded<sam3_c_result*>(nullptr, [&] {
        const auto& work = *given(session, "session")->work;
        sam3_pcs_params params;
        if (text != nullptr) params.text_prompt = text;
        params.score_threshold = threshold;
        if (box_count > 0) given(boxes, "boxes");
        for (size_t i = 0; i < box_count; ++i)
            (is_positive(positive, i) ? params.pos_exemplars : params.neg_exemplars).push_back(box_of(boxes[i]));
        return new_result(sam3_segment_pcs(*work.state, *work.model, params));
    });
}

sam3_c_result* sam3_c_segment_text(sam3_c_session* session, const char* text, float threshold) {
    return sam3_c_segment_concept(session, text, nullptr, nullptr, 0, threshold);
}

sam3_c_result* sam3_c_segment_clicks(sam3_c_session* session, const sam3_c_clicks* clicks, int candidates) {
    return guarded<sam3_c_result*>(nullptr, [&] {
        const auto& work = *given(session, "session")->work;
        sam3_pvs_params params = params_of(*given(clicks, "clicks"));
        params.multimask = candidates != 0;
        return new_result(sam3_segment_pvs(*work.state, *work.model, params));
    });
}

int sam3_c_count(const sam3_c_result* result) {
    return result == nullptr ? 0 : static_cast<int>(result->result.detections.size());
}

sam3_c_instance sam3_c_detection(const sam3_c_result* result, int index) {
    sam3_c_instance out{};
    if (index < 0 || index >= sam3_c_count(result)) return out;
    const sam3_detection& found = result->result.detections[static_cast<size_t>(index)];
    out.score = found.score;
    out.box = {found.box.x0, found.box.y0, found.box.x1, found.box.y1};
    out.mask = found.mask.data.data();
    out.width = found.mask.width;
    out.height = found.mask.height;
    out.object_score = found.mask.obj_score;
    out.id = found.instance_id;
    out.label = found.label.c_str();
    return out;
}

float sam3_c_presence(const sam3_c_result* result) { return result == nullptr ? 0.0f : result->result.presence_score; }
int sam3_c_frame(const sam3_c_result* result) { return result == nullptr ? -1 : result->result.frame_index; }

int sam3_c_save_mask(const sam3_c_result* result, int index, const char* path) {
    return guarded(0, [&] {
        const auto& found = given(result, "result")->result.detections;
        if (index < 0 || index >= sam3_c_count(result))
            sam3::fail("there is no instance ", index, ": the result has ", found.size());
        return sam3_save_mask(found[static_cast<size_t>(index)].mask, given(path, "path")) ? 1 : 0;
    });
}

void sam3_c_free_result(sam3_c_result* result) { delete result; }

sam3_c_picture* sam3_c_load_picture(const char* path) {
    return guarded<sam3_c_picture*>(nullptr, [&] { return new_picture(sam3_load_image(given(path, "path"))); });
}

sam3_c_picture* sam3_c_load_frame(const char* video, int frame) {
    return guarded<sam3_c_picture*>(nullptr,
                                    [&] { return new_picture(sam3_decode_video_frame(given(video, "video"), frame)); });
}

int sam3_c_width(const sam3_c_picture* picture) { return picture == nullptr ? 0 : picture->image.width; }
int sam3_c_height(const sam3_c_picture* picture) { return picture == nullptr ? 0 : picture->image.height; }
const uint8_t* sam3_c_pixels(const sam3_c_picture* picture) {
    return picture == nullptr ? nullptr : picture->image.data.data();
}
void sam3_c_free_picture(sam3_c_picture* picture) { delete picture; }

sam3_c_video sam3_c_video_info(const char* video) {
    return guarded(sam3_c_video{}, [&] {
        const sam3_video_info info = sam3_get_video_info(given(video, "video"));
        return sam3_c_video{info.width, info.height, info.n_frames, info.fps};
    });
}
