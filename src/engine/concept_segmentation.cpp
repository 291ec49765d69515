#include "engine/image_session.h"

#include "engine/device_masks.h"
#include "mask/geometry.h"
#include "mask/upsample.h"
#include "util/error.h"
#include "util/sigmoid.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace sam3 {

namespace {

// Prompts that run in one batch. More would only cost memory: a prompt's pixel embedding alone is 85 MB at 1008 pixels.
constexpr size_t kPromptsPerBatch = 4;
constexpr const char* kVisualPhrase = "visual";  // what the models were trained with when only exemplars are given

bool is_blank(const std::string& text) {
    return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c <= ' '; });
}

std::string describe(const Box& box) { return str("(", box.x0, ", ", box.y0, ", ", box.x1, ", ", box.y1, ")"); }

void check_box(const Box& box, int width, int height) {
    for (const float value : {box.x0, box.y0, box.x1, box.y1})
        if (!std::isfinite(value)) fail("the exemplar box ", describe(box), " has a coordinate that is not a number");
    if (box.x1 <= box.x0 || box.y1 <= box.y0)
        fail("the exemplar box ", describe(box), " has no area: expected x0 < x1 and y0 < y1");
    const auto w = static_cast<float>(width);
    const auto h = static_cast<float>(height);
    if (box.x1 <= 0 || box.y1 <= 0 || box.x0 >= w || box.y0 >= h)
        fail("the exemplar box ", describe(box), " lies outside the image of ", width, " x ", height, " pixels");
}

void check_point(const Point& point, int width, int height) {
    if (!std::isfinite(point.x) || !std::isfinite(point.y))
        fail("the point (", point.x, ", ", point.y, ") has a coordinate that is not a number");
    if (point.x < 0 || point.y < 0 || point.x > static_cast<float>(width) || point.y > static_cast<float>(height))
        fail("the point (", point.x, ", ", point.y, ") lies outside the image of ", width, " x ", height, " pixels");
}

Box scaled_box(const float* cxcywh, int width, int height) {
    const auto w = static_cast<float>(width);
    const auto h = static_cast<float>(height);
    return {(cxcywh[0] - 0.5F * cxcywh[2]) * w, (cxcywh[1] - 0.5F * cxcywh[3]) * h, (cxcywh[0] + 0.5F * cxcywh[2]) * w,
            (cxcywh[1] + 0.5F * cxcywh[3]) * h};
}

// What the decoder says of a prompt's queries, side by side so that it comes to the host at once: the presence, a logit
// for each query, a box for each.
Tensor answers_of(Ops& ops, const Sam3Detector::Output& output) {
    const int64_t batch = output.logits.dim(0);
    return ops.download(ops.concat(
        {output.presence.reshape({batch, 1}), output.logits, output.boxes.reshape({batch, 4 * output.logits.dim(1)})},
        1));
}

// Queries whose score passes the threshold, best first. logits [queries], boxes [queries, 4]
std::vector<Detection> rank(const float* logits, const float* boxes, int64_t queries, float presence, float threshold,
                            const Size& image) {
    std::vector<Detection> found;
    for (int query = 0; query < static_cast<int>(queries); ++query) {
        const float score = sigmoid(logits[query]) * presence;
        if (score > threshold)
            found.push_back({score, scaled_box(boxes + 4 * query, image.width, image.height), {}, query});
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Detection& a, const Detection& b) { return a.score > b.score; });
    return found;
}

std::vector<float> scores_of(const std::vector<Detection>& found) {
    std::vector<float> scores;
    for (const Detection& detection : found) scores.push_back(detection.score);
    return scores;
}

std::vector<int> first_indices(size_t count) {
    std::vector<int> indices(count);
    std::iota(indices.begin(), indices.end(), 0);
    return indices;
}

std::vector<Detection> pick(const std::vector<Detection>& found, const std::vector<int>& indices) {
    std::vector<Detection> chosen;
    for (const int i : indices) chosen.push_back(found[static_cast<size_t>(i)]);
    return chosen;
}

FloatMap map_of(const Tensor& masks, int64_t index) {
    const int64_t height = masks.dim(-2);
    const int64_t width = masks.dim(-1);
    return {masks.data<float>() + index * height * width, static_cast<int>(width), static_cast<int>(height)};
}

Mask at_own_size(const FloatMap& map) {
    Mask mask(map.width, map.height);
    for (size_t i = 0; i < mask.data.size(); ++i) mask.data[i] = map.data[i] > 0 ? 1 : 0;
    return mask;
}

}  // namespace

GeometryPrompt ImageSession::geometry_of(const ConceptPrompt& prompt) const {
    const ImageSize size = sizes_[static_cast<size_t>(prompt.image)];
    const auto w = static_cast<float>(size.width);
    const auto h = static_cast<float>(size.height);
    GeometryPrompt geometry;
    const auto add_boxes = [&](const std::vector<Box>& boxes, bool positive) {
        for (const Box& box : boxes) {
            check_box(box, size.width, size.height);
            const float x0 = box.x0 / w, y0 = box.y0 / h, x1 = box.x1 / w, y1 = box.y1 / h;
            geometry.boxes.push_back({(x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0, positive});
        }
    };
    const auto add_points = [&](const std::vector<Point>& points, bool positive) {
        for (const Point& point : points) {
            check_point(point, size.width, size.height);
            geometry.points.push_back({point.x / w, point.y / h, positive});
        }
    };
    add_boxes(prompt.positive_boxes, true);
    add_boxes(prompt.negative_boxes, false);
    add_points(prompt.positive_points, true);
    add_points(prompt.negative_points, false);
    return geometry;
}

void ImageSession::expect(std::span<const ConceptPrompt> prompts) {
    if (ops_.device().is_host() || wait_for_steps_) return;  // nothing runs beside anything else
    for (const ConceptPrompt& prompt : prompts)
        if (!is_blank(prompt.text)) model_->text_features(ops_, prompt.text);
}

PromptPart ImageSession::encode_prompt(const ConceptPrompt& prompt) {
    if (prompt.image < 0 || prompt.image >= static_cast<int>(sizes_.size()))
        fail("the prompt asks for image ", prompt.image, ", but ", sizes_.size(), " were encoded");
    const GeometryPrompt geometry = geometry_of(prompt);
    if (is_blank(prompt.text) && geometry.empty())
        fail("there is nothing to look for: give a phrase, an exemplar box, or both");
    PromptPart part;
    {
        const Timing timing = time_step("text_encoder");
        const TextFeatures text = model_->text_features(ops_, is_blank(prompt.text) ? kVisualPhrase : prompt.text);
        part.text = text.tokens;
        part.text_valid = text.valid;
    }
    ops_.trace("text.features", part.text.unsqueeze(0));
    if (!geometry.empty() || model_->behaviour().cls_on_text_only) {
        part.geometry = encode_geometry(prompt.image, geometry);
        ops_.trace("geometry.features", part.geometry);
    }
    return part;
}

// Without any geometry the encoder still says something of the image, the same for every phrase.
Tensor ImageSession::encode_geometry(int image, const GeometryPrompt& geometry) {
    const DetectorFeatures features = detector_features().image(image);  // has a time of its own
    if (geometry.empty()) return features.unprompted;
    const Timing timing = time_step("geometry_encoder");
    return model_->detector().encode_geometry(ops_, features, geometry);
}

const DetectorFeatures& ImageSession::detector_features() {
    if (detector_features_.maps.empty()) {
        const Timing timing = time_step("detector_neck");
        detector_features_ = model_->detector().features(ops_, trunk_);
        if (!model_->answers_clicks()) trunk_ = {};  // nobody else starts from it
    }
    return detector_features_;
}

// One image for all prompts is shared as it is; otherwise each prompt gets its own.
DetectorFeatures ImageSession::features_for(std::span<const ConceptPrompt> prompts) {
    const bool one_image = std::all_of(prompts.begin(), prompts.end(),
                                       [&](const ConceptPrompt& p) { return p.image == prompts.front().image; });
    const DetectorFeatures& all = detector_features();
    if (one_image) return all.image(prompts.front().image);
    const auto gather = [&](const Tensor& batch) {
        std::vector<Tensor> rows;
        for (const ConceptPrompt& prompt : prompts) rows.push_back(batch.slice(0, prompt.image, 1));
        return ops_.concat(rows, 0);
    };
    DetectorFeatures gathered;
    for (const Tensor& map : all.maps) gathered.maps.push_back(gather(map));
    gathered.begun = gather(all.begun);
    return gathered;
}

StartedConcepts ImageSession::start(std::span<const ConceptPrompt> prompts) {
    if (!encoded()) fail("no image was encoded: encode one before segmenting");
    const std::span<const ConceptPrompt> first = prompts.first(std::min(kPromptsPerBatch, prompts.size()));
    if (first.empty()) return {};
    return {first.size(), detect(first)};
}

std::vector<ConceptResult> ImageSession::segment(std::span<const ConceptPrompt> prompts,
                                                 const StartedConcepts& started) {
    if (!encoded()) fail("no image was encoded: encode one before segmenting");
    for (const ConceptPrompt& prompt : prompts)
        if (!(prompt.options.threshold >= 0 && prompt.options.threshold <= 1))
            fail("the score threshold must lie between 0 and 1, found ", prompt.options.threshold);
    std::vector<ConceptResult> results;
    if (started.prompts > 0) read_out(started.output, prompts.first(started.prompts), results);
    while (results.size() < prompts.size()) {
        const size_t begin = results.size();
        const auto some = prompts.subspan(begin, std::min(kPromptsPerBatch, prompts.size() - begin));
        read_out(detect(some), some, results);
    }
    return results;
}

Sam3Detector::Output ImageSession::detect(std::span<const ConceptPrompt> prompts) {
    std::vector<PromptPart> parts;
    for (const ConceptPrompt& prompt : prompts) parts.push_back(encode_prompt(prompt));
    const DetectorFeatures features = features_for(prompts);
    const Timing timing = time_step("concept_decoder");
    return model_->detector().detect(ops_, features, model_->detector().join(ops_, parts));
}

void ImageSession::read_out(const Sam3Detector::Output& output, std::span<const ConceptPrompt> prompts,
                            std::vector<ConceptResult>& results) {
    if (ops_.tracing()) {
        ops_.trace("masks.logits", model_->detector().masks(ops_, output.pixels, output.masks));
        ops_.trace("semantic.logits", model_->detector().semantic(ops_, output.pixels));
    }
    const Timing timing = time_step("masks");
    const Tensor answers = answers_of(ops_, output);
    for (size_t i = 0; i < prompts.size(); ++i) {
        const auto row = static_cast<int64_t>(i);
        results.push_back(read_out(output, row, answers.data<float>() + row * answers.dim(1), prompts[i]));
    }
}

DeviceDetections ImageSession::segment_on_device(const ConceptPrompt& prompt, int64_t count) {
    if (!encoded()) fail("no image was encoded: encode one before segmenting");
    const PromptPart part = encode_prompt(prompt);
    const DetectorFeatures features = features_for({&prompt, 1});
    const Timing timing = time_step("concept_decoder");
    const Sam3Detector::Output found = model_->detector().detect(ops_, features, model_->detector().join(ops_, {part}));
    const ImageSize& size = sizes_[static_cast<size_t>(prompt.image)];
    const std::vector<Tensor> inputs = {found.logits,        found.presence,      found.boxes,
                                        found.masks.vectors, found.masks.offsets, found.pixels};
    const std::string name = str("best masks: ", count, " of ", size.width, " x ", size.height);
    const std::vector<Tensor> best = ops_.stage(name, inputs, [&](const std::vector<Tensor>& in) {
        const Sam3Detector::Output output{in[0], in[1], in[2], {in[3], in[4]}, in[5]};
        const Tensor scores = ops_.mul(ops_.unary(output.logits.reshape({1, output.logits.numel()}), Unary::sigmoid),
                                       ops_.unary(output.presence.reshape({1, 1}), Unary::sigmoid));
        const auto [highest, queries] = ops_.topk(scores, std::min(count, scores.numel()));
        const Tensor logits = model_->detector().masks(ops_, output.pixels, output.chosen(ops_, 0, queries));
        const bool sigmoid_first = model_->behaviour().sigmoid_before_upsampling;
        const Tensor maps = sigmoid_first ? ops_.unary(logits.select(0, 0), Unary::sigmoid) : logits.select(0, 0);
        return std::vector<Tensor>{highest, ops_.gather_rows(output.boxes, queries),
                                   ops_.resize_above(maps, size.height, size.width, sigmoid_first ? 0.5F : 0.0F)};
    });
    return {best[0], best[1], best[2]};
}

// answers: the row of answers_of
ConceptResult ImageSession::read_out(const Sam3Detector::Output& output, int64_t row, const float* answers,
                                     const ConceptPrompt& prompt) {
    const ConceptOptions& options = prompt.options;
    const ImageSize size = sizes_[static_cast<size_t>(prompt.image)];
    const bool suppress_boxes = options.nms_threshold < 1.0F && options.nms_on_boxes;
    const bool suppress_masks = options.nms_threshold < 1.0F && !options.nms_on_boxes;
    const int64_t queries = output.logits.dim(1);
    ConceptResult result;
    result.presence = sigmoid(answers[0]);
    std::vector<Detection> found = rank(answers + 1, answers + 1 + queries, queries, result.presence, options.threshold,
                                        {size.width, size.height});
    if (suppress_boxes) {
        std::vector<Box> boxes;
        for (const Detection& detection : found) boxes.push_back(detection.box);
        found = pick(found, nms_boxes(boxes, scores_of(found), static_cast<double>(options.nms_threshold)));
    }
    const auto limit = static_cast<size_t>(options.top_k > 0 ? options.top_k : std::numeric_limits<int>::max());
    if (!suppress_masks && found.size() > limit) found.resize(limit);

    if (!found.empty()) {
        const Tensor logits = candidate_masks(output, row, found);
        const Tensor masks = ops_.download(logits);
        std::vector<int> kept = first_indices(found.size());
        if (suppress_masks) {
            std::vector<Mask> small;  // at the network's own resolution, as in the reference
            for (size_t i = 0; i < found.size(); ++i)
                small.push_back(at_own_size(map_of(masks, static_cast<int64_t>(i))));
            kept = nms_masks(small, scores_of(found), static_cast<double>(options.nms_threshold));
            if (kept.size() > limit) kept.resize(limit);
        }
        result.detections = pick(found, kept);
        for (size_t i = 0; i < kept.size(); ++i) result.detections[i].logits = masks.select(0, 0).select(0, kept[i]);
        if (options.full_size && ops_.device().is_host())
            for (size_t i = 0; i < kept.size(); ++i) result.detections[i].mask = upsample(masks, kept[i], size);
        else if (options.full_size)
            upsample_on_device(logits.select(0, 0), kept, size, result.detections);
    }
    if (options.semantic)
        result.semantic =
            upsample(ops_.download(model_->detector().semantic(ops_, output.pixels.slice(0, row, 1))), 0, size);
    return result;
}

// Logits of the chosen queries only: [1, K, h, w].
Tensor ImageSession::candidate_masks(const Sam3Detector::Output& output, int64_t row,
                                     const std::vector<Detection>& candidates) {
    Tensor ids = Tensor::host({1, static_cast<int64_t>(candidates.size())}, DType::i32);
    for (size_t i = 0; i < candidates.size(); ++i) ids.data<int32_t>()[i] = candidates[i].query;
    return model_->detector().masks(ops_, output.pixels.slice(0, row, 1), output.chosen(ops_, row, ops_.upload(ids)));
}

// The masks of `kept` rows of logits [K, h, w].
void ImageSession::upsample_on_device(const Tensor& logits, const std::vector<int>& kept, const ImageSize& size,
                                      std::vector<Detection>& detections) {
    if (kept.empty()) return;
    std::vector<Tensor> rows;
    for (const int row : kept) rows.push_back(logits.slice(0, row, 1));
    Tensor maps = kept.size() == static_cast<size_t>(logits.dim(0)) ? logits : ops_.concat(rows, 0);
    const bool sigmoid_first = model_->behaviour().sigmoid_before_upsampling;
    if (sigmoid_first) maps = ops_.unary(maps, Unary::sigmoid);
    std::vector<Mask> masks = enlarged_on_device(ops_, maps, {size.width, size.height}, sigmoid_first ? 0.5F : 0.0F);
    for (size_t i = 0; i < masks.size(); ++i) detections[i].mask = std::move(masks[i]);
}

Mask ImageSession::upsample(const Tensor& logits, int64_t index, const ImageSize& size) const {
    const bool sigmoid_first = model_->behaviour().sigmoid_before_upsampling;
    return upsample_mask(
        map_of(logits, index), size.width, size.height,
        {.threshold = sigmoid_first ? 0.5F : 0.0F, .sigmoid_first = sigmoid_first, .threads = ops_.threads()});
}

}  // namespace sam3
