#include "api/handles.h"
#include "media/image_io.h"

#include <utility>

// Catches, translates, and holds no logic.

namespace sam3::api {

sam3::Image to_image(const sam3_image& image) {
    sam3::Image out;
    out.width = image.width;
    out.height = image.height;
    out.channels = image.channels;
    out.pixels = image.data;
    return out;
}

sam3_mask from_mask(const sam3::Mask& mask) {
    sam3_mask out;
    out.width = mask.width;
    out.height = mask.height;
    out.data.reserve(mask.data.size());
    for (const uint8_t value : mask.data) out.data.push_back(value != 0 ? 255 : 0);
    return out;
}

sam3_detection make_detection(int id, const Box& box, const Mask& mask, float score, float object_score) {
    sam3_detection out;
    out.box = {box.x0, box.y0, box.x1, box.y1};
    out.score = score;
    out.iou_score = score;
    out.instance_id = id;
    out.mask = from_mask(mask);
    out.mask.iou_score = score;
    out.mask.obj_score = object_score;
    out.mask.instance_id = id;
    return out;
}

sam3_image from_image(Image image) {
    sam3_image out;
    out.width = image.width;
    out.height = image.height;
    out.channels = image.channels;
    out.data = std::move(image.pixels);
    return out;
}

VisualQuery to_query(const sam3_pvs_params& params) {
    VisualQuery query;
    for (const sam3_point& point : params.pos_points) query.points.push_back({point.x, point.y, true});
    for (const sam3_point& point : params.neg_points) query.points.push_back({point.x, point.y, false});
    if (params.use_box) query.box = Box{params.box.x0, params.box.y0, params.box.x1, params.box.y1};
    query.multimask = params.multimask;
    query.image = params.image_index;
    return query;
}

const std::shared_ptr<ImageSession>& session_of(const sam3_state& state) {
    if (!state.session) fail("this state was freed");
    return state.session;
}

}  // namespace sam3::api

namespace {

using namespace sam3::api;

sam3::ConceptPrompt to_prompt(const sam3_pcs_params& params) {
    sam3::ConceptPrompt prompt;
    prompt.text = params.text_prompt;
    prompt.image = params.image_index;
    const auto boxes = [](const std::vector<sam3_box>& from, std::vector<sam3::Box>& to) {
        for (const sam3_box& box : from) to.push_back({box.x0, box.y0, box.x1, box.y1});
    };
    const auto points = [](const std::vector<sam3_point>& from, std::vector<sam3::Point>& to) {
        for (const sam3_point& point : from) to.push_back({point.x, point.y});
    };
    boxes(params.pos_exemplars, prompt.positive_boxes);
    boxes(params.neg_exemplars, prompt.negative_boxes);
    points(params.pos_points, prompt.positive_points);
    points(params.neg_points, prompt.negative_points);
    prompt.options.threshold = params.score_threshold;
    prompt.options.nms_threshold = params.nms_threshold;
    prompt.options.top_k = params.max_detections;
    prompt.options.semantic = params.semantic;
    return prompt;
}

sam3_result from_result(const sam3::ConceptResult& result) {
    sam3_result out;
    out.presence_score = result.presence;
    out.semantic = from_mask(result.semantic);
    for (const sam3::Detection& detection : result.detections) {
        const auto id = static_cast<int>(out.detections.size());
        out.detections.push_back(make_detection(id, detection.box, detection.mask, detection.score, result.presence));
    }
    return out;
}

sam3_result from_answer(const sam3::VisualAnswer& answer) {
    sam3_result out;
    out.presence_score = answer.object_score;
    for (const sam3::VisualCandidate& candidate : answer.candidates) {
        const auto id = static_cast<int>(out.detections.size());
        out.detections.push_back(
            make_detection(id, sam3::box_around(candidate.mask), candidate.mask, candidate.iou, answer.object_score));
    }
    return out;
}

}  // namespace

const char* sam3_last_error() { return last_error.c_str(); }

void sam3_state_deleter::operator()(sam3_state* state) const { delete state; }

std::shared_ptr<sam3_model> sam3_load_model(const sam3_params& params) {
    return guarded(std::shared_ptr<sam3_model>(), [&] {
        auto model = std::make_shared<sam3_model>();
        sam3::LoadOptions options;
        options.path = params.model_path;
        options.behaviour = params.behaviour;
        options.image_size = params.image_size;
        options.device = params.use_gpu ? params.device : "cpu";
        options.precision = params.precision;
        model->model = sam3::Model::load(options);
        return model;
    });
}

sam3_state_ptr sam3_create_state(const sam3_model& model, const sam3_params& params) {
    return guarded(sam3_state_ptr(), [&] {
        if (!model.model) sam3::fail("this model was freed");
        if (params.n_threads < 1) sam3::fail("n_threads must be at least 1, found ", params.n_threads);
        sam3_state_ptr state(new sam3_state);
        state->model = model.model;
        state->session = std::make_shared<sam3::ImageSession>(model.model, params.n_threads);
        return state;
    });
}

bool sam3_encode_image(sam3_state& state, const sam3_model& model, const sam3_image& image) {
    return sam3_encode_images(state, model, {image});
}

bool sam3_encode_images(sam3_state& state, const sam3_model&, const std::vector<sam3_image>& images) {
    return guarded(false, [&] {
        std::vector<sam3::Image> converted;
        for (const sam3_image& image : images) converted.push_back(to_image(image));
        session_of(state)->encode(converted);
        return true;
    });
}

sam3_result sam3_segment_pcs(sam3_state& state, const sam3_model&, const sam3_pcs_params& params) {
    return guarded(sam3_result(), [&] {
        const sam3::ConceptPrompt prompt = to_prompt(params);
        return from_result(session_of(state)->segment({&prompt, 1}).front());
    });
}

std::vector<sam3_result> sam3_segment_pcs_batch(sam3_state& state, const sam3_model&,
                                                const std::vector<sam3_pcs_params>& prompts) {
    return guarded(std::vector<sam3_result>(), [&] {
        std::vector<sam3::ConceptPrompt> converted;
        for (const sam3_pcs_params& params : prompts) converted.push_back(to_prompt(params));
        std::vector<sam3_result> results;
        for (const sam3::ConceptResult& result : session_of(state)->segment(converted))
            results.push_back(from_result(result));
        return results;
    });
}

sam3_result sam3_segment_pvs(sam3_state& state, const sam3_model&, const sam3_pvs_params& params) {
    return guarded(sam3_result(), [&] {
        const sam3::VisualQuery query = to_query(params);
        return from_answer(session_of(state)->segment({&query, 1}).front());
    });
}

bool sam3_is_visual_only(const sam3_model& model) { return model.model && !model.model->finds_concepts(); }

void sam3_free_model(sam3_model& model) { model.model.reset(); }

void sam3_free_state(sam3_state& state) {
    state.session.reset();
    state.model.reset();
}

sam3_image sam3_load_image(const std::string& path) {
    return guarded(sam3_image(), [&] { return from_image(sam3::read_image(path)); });
}

bool sam3_save_mask(const sam3_mask& mask, const std::string& path) {
    return guarded(false, [&] {
        sam3::Image image;
        image.width = mask.width;
        image.height = mask.height;
        image.channels = 1;
        image.pixels = mask.data;
        sam3::check_image(image);
        sam3::write_file(path, sam3::encode_png(image));
        return true;
    });
}
