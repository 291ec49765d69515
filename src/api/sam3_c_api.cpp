#include "sam3_c.h"

#include "sam3.h"

#include <new>
#include <string>

struct sam3_c_model {
    std::shared_ptr<sam3_model> model;
};
struct sam3_c_session {
    std::shared_ptr<sam3_model> model;
    sam3_state_ptr state;
};
struct sam3_c_result {
    sam3_result result;
};

const char* sam3_c_version(void) { return sam3_version(); }
const char* sam3_c_last_error(void) { return sam3_last_error(); }

sam3_c_model* sam3_c_load_model(const char* path, const char* behaviour) {
    return sam3_c_load_model_on(path, behaviour, nullptr, nullptr);
}

sam3_c_model* sam3_c_load_model_on(const char* path, const char* behaviour, const char* device, const char* precision) {
    sam3_params params;
    if (path != nullptr) params.model_path = path;
    if (behaviour != nullptr) params.behaviour = behaviour;
    if (device != nullptr) params.device = device;
    if (precision != nullptr) params.precision = precision;
    auto model = sam3_load_model(params);
    return model ? new (std::nothrow) sam3_c_model{std::move(model)} : nullptr;
}

void sam3_c_free_model(sam3_c_model* model) { delete model; }

sam3_c_session* sam3_c_create_session(const sam3_c_model* model, int threads) {
    if (model == nullptr) return nullptr;
    sam3_params params;
    params.n_threads = threads;
    auto state = sam3_create_state(*model->model, params);
    return state ? new (std::nothrow) sam3_c_session{model->model, std::move(state)} : nullptr;
}

void sam3_c_free_session(sam3_c_session* session) { delete session; }

int sam3_c_encode_rgb(sam3_c_session* session, const uint8_t* rgb, int width, int height) {
    if (session == nullptr) return 0;
    sam3_image image;
    image.width = width;
    image.height = height;
    if (rgb != nullptr && width > 0 && height > 0)
        image.data.assign(rgb, rgb + static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
    return sam3_encode_image(*session->state, *session->model, image) ? 1 : 0;
}

sam3_c_result* sam3_c_segment_concept(sam3_c_session* session, const char* text, const sam3_c_box* boxes,
                                      const uint8_t* positive, size_t box_count, float threshold) {
    if (session == nullptr) return nullptr;
    sam3_pcs_params params;
    if (text != nullptr) params.text_prompt = text;
    params.score_threshold = threshold;
    for (size_t i = 0; boxes != nullptr && i < box_count; ++i) {
        const bool good = positive == nullptr || positive[i] != 0;
        (good ? params.pos_exemplars : params.neg_exemplars)
            .push_back({boxes[i].x0, boxes[i].y0, boxes[i].x1, boxes[i].y1});
    }
    sam3_result result = sam3_segment_pcs(*session->state, *session->model, params);
    if (*sam3_last_error() != '\0') return nullptr;
    return new (std::nothrow) sam3_c_result{std::move(result)};
}

sam3_c_result* sam3_c_segment_text(sam3_c_session* session, const char* text, float threshold) {
    return sam3_c_segment_concept(session, text, nullptr, nullptr, 0, threshold);
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
    return out;
}

float sam3_c_presence(const sam3_c_result* result) { return result == nullptr ? 0.0f : result->result.presence_score; }

void sam3_c_free_result(sam3_c_result* result) { delete result; }
