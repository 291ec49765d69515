#include "engine/device_masks.h"
#include "engine/image_session.h"
#include "mask/components.h"
#include "mask/upsample.h"
#include "util/error.h"
#include "util/sigmoid.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace sam3 {

namespace {

// Objects that run through the decoder together: more would only cost memory.
constexpr size_t kObjectsPerBatch = 16;
// Logits that stand for a mask given as pixels, as the tracker has it.
constexpr float kMaskLogit = 10.0F;

void check(const VisualQuery& query, int width, int height, bool correction) {
    const auto w = static_cast<float>(width);
    const auto h = static_cast<float>(height);
    for (const auto& point : query.points) {
        if (!std::isfinite(point.x) || !std::isfinite(point.y))
            fail("the point (", point.x, ", ", point.y, ") has a coordinate that is not a number");
        if (point.x < 0 || point.y < 0 || point.x > w || point.y > h)
            fail("the point (", point.x, ", ", point.y, ") lies outside the image of ", width, " x ", height,
                 " pixels");
    }
    const bool has_mask = query.mask_logits.defined() || !query.mask.data.empty();
    const bool positive =
        std::any_of(query.points.begin(), query.points.end(), [](const auto& p) { return p.positive; });
    if (query.points.empty() && !query.box && !has_mask)
        fail("there is nothing to segment: give a point, a box or a mask");
    if (!positive && !query.box && !has_mask && !correction)
        fail("all points are negative: add a positive point, a box or a mask that says which object is meant");
    if (query.mask_logits.defined() && !query.mask.data.empty()) fail("give a mask or mask logits, not both");
    if (!query.mask.data.empty() && (query.mask.width != width || query.mask.height != height))
        fail("the mask is ", query.mask.width, " x ", query.mask.height, " pixels, but the image is ", width, " x ",
             height);
    if (!query.box) return;
    const Box& box = *query.box;
    for (const float value : {box.x0, box.y0, box.x1, box.y1})
        if (!std::isfinite(value)) fail("the box has a coordinate that is not a number");
    if (box.x1 <= box.x0 || box.y1 <= box.y0)
        fail("the box (", box.x0, ", ", box.y0, ", ", box.x1, ", ", box.y1,
             ") has no area: expected x0 < x1 and y0 < y1");
    if (box.x1 <= 0 || box.y1 <= 0 || box.x0 >= w || box.y0 >= h)
        fail("the box (", box.x0, ", ", box.y0, ", ", box.x1, ", ", box.y1, ") lies outside the image of ", width,
             " x ", height, " pixels");
}

// What one object's answer was made from, in the decoder's own order: [masks, h, w], [masks], [1].
void trace_answer(Ops& ops, const SamMaskDecoder::Output& output, int64_t row, bool multimask, int64_t single) {
    if (!ops.tracing()) return;
    const int64_t first = multimask ? 1 : single;
    const int64_t count = multimask ? output.masks.dim(1) - 1 : 1;
    ops.trace("click.masks", output.masks.select(0, row).slice(0, first, count));
    ops.trace("click.iou", output.iou.slice(0, row, 1).slice(1, first, count));
    if (output.object_score) ops.trace("click.object", output.object_score.slice(0, row, 1));
}

}  // namespace

const InteractiveFeatures& ImageSession::interactive_features(int image) {
    if (interactive_features_.empty()) {
        const Timing timing = time_step("tracker_neck");
        interactive_features_ = model_->network().interactive_features(ops_, trunk_);
    }
    return interactive_features_[static_cast<size_t>(image)];
}

const InteractiveFeatures& ImageSession::clickable_features(int image) {
    interactive_features(image);
    InteractiveFeatures& features = interactive_features_[static_cast<size_t>(image)];
    if (!features.prepared) features.prepared = model_->interactive_head().prepare(ops_, features);
    return features;
}

// A mask of the image's size at the decoder's resolution; what lies outside the image is background.
Tensor ImageSession::mask_to_logits(const Mask& mask, const ImageSize& size) {
    const auto side = static_cast<int>(4 * trunk_.dim(1));
    const auto fit = [&](int scaled) {
        const auto input = static_cast<double>(model_->image_size());
        return std::max<int64_t>(1, std::llround(static_cast<double>(scaled) * side / input));
    };
    Tensor pixels = Tensor::host({1, mask.height, mask.width, 1});
    for (size_t i = 0; i < mask.data.size(); ++i)
        pixels.data<float>()[i] = mask.data[i] != 0 ? kMaskLogit : -kMaskLogit;
    const Tensor small = ops_.download(ops_.resize(ops_.upload(pixels), fit(size.scaled_height), fit(size.scaled_width),
                                                   Interpolation::bilinear, /*antialias=*/true));
    Tensor logits = Tensor::host({side, side});
    std::fill_n(logits.data<float>(), logits.numel(), -kMaskLogit);
    for (int64_t y = 0; y < small.dim(1); ++y)
        std::memcpy(logits.data<float>() + y * side, small.data<float>() + y * small.dim(2),
                    static_cast<size_t>(small.dim(2)) * sizeof(float));
    return logits;
}

VisualPrompt ImageSession::to_network(const VisualQuery& query, bool correction) const {
    const ImageSize& size = size_of(query.image);
    check(query, size.width, size.height, correction);
    const float sx = static_cast<float>(size.scaled_width) / static_cast<float>(size.width);
    const float sy = static_cast<float>(size.scaled_height) / static_cast<float>(size.height);
    VisualPrompt prompt;
    for (const auto& point : query.points) prompt.points.push_back({point.x * sx, point.y * sy, point.positive});
    if (query.box)
        prompt.box = VisualPrompt::Box{query.box->x0 * sx, query.box->y0 * sy, query.box->x1 * sx, query.box->y1 * sy};
    return prompt;
}

InteractivePrompt ImageSession::interactive_prompt(const VisualQuery& query) {
    return {to_network(query),
            query.mask.data.empty() ? query.mask_logits : mask_to_logits(query.mask, size_of(query.image))};
}

// The logits [h, w] that cover the image, without padding. SAM 1 enlarges them to the network's input first, into
// `buffer`, and cuts the padding off there.
FloatMap ImageSession::image_part(const Tensor& logits, const ImageSize& size, std::vector<float>& buffer) const {
    const FloatMap map{logits.data<float>(), static_cast<int>(logits.dim(1)), static_cast<int>(logits.dim(0))};
    if (!model_->network().preprocessing().keep_aspect) return map;
    const auto side = static_cast<int>(model_->image_size());
    buffer = upsample_bilinear(map, side, side, ops_.threads());
    return {buffer.data(), size.scaled_width, size.scaled_height, side};
}

// Logits at the decoder's resolution -> a mask of the image's size.
Mask ImageSession::to_image(const Tensor& logits, const ImageSize& size) const {
    std::vector<float> buffer;
    return upsample_mask(image_part(logits, size, buffer), size.width, size.height, {.threads = ops_.threads()});
}

// The same on a device of its own, for all masks of a batch [B, 1 + M, h, w]; undefined when the host has to do it.
Tensor ImageSession::on_image(const Tensor& masks, const ImageSize& size) {
    constexpr int64_t kMostBytes = int64_t{128} << 20;
    const Tensor maps = masks.reshape({masks.dim(0) * masks.dim(1), masks.dim(2), masks.dim(3)});
    const bool large = maps.dim(0) * size.width * size.height > kMostBytes;
    if (large || ops_.device().is_host() || model_->network().preprocessing().keep_aspect) return {};
    return ops_.resize_above(maps, size.height, size.width, 0.0F);
}

// masks [B, 1 + M, h, w], iou [B, 1 + M] and scores [B, 1] (or undefined) in host memory; on_image as above.
VisualAnswer ImageSession::answer(const Tensor& masks, const Tensor& iou, const Tensor& scores, const Tensor& on_image,
                                  int64_t row, const VisualQuery& query) {
    const int64_t count = masks.dim(1);
    const int64_t pixels = masks.dim(2) * masks.dim(3);
    const float* logits = masks.data<float>() + row * count * pixels;
    const float* quality = iou.data<float>() + row * count;
    std::vector<int64_t> best(static_cast<size_t>(count - 1));
    std::iota(best.begin(), best.end(), 1);
    std::stable_sort(best.begin(), best.end(), [&](int64_t a, int64_t b) { return quality[a] > quality[b]; });

    const StabilityRule rule = model_->network().stability_rule();
    std::vector<int64_t> chosen = best;
    if (!query.multimask) {
        const bool stable = !rule.active || rule.holds(masks.select(0, row).select(0, 0));
        chosen = {stable ? 0 : best.front()};
    }
    VisualAnswer result;
    if (scores) result.object_score = sigmoid(scores.data<float>()[row]);
    for (const int64_t i : chosen) {
        VisualCandidate candidate;
        candidate.iou = quality[i];
        candidate.index = static_cast<int>(i);
        candidate.logits = Tensor::host({masks.dim(2), masks.dim(3)});
        std::memcpy(candidate.logits.raw(), logits + i * pixels, static_cast<size_t>(pixels) * sizeof(float));
        candidate.mask = on_image ? mask_of(ops_.download(on_image.slice(0, row * count + i, 1)))
                                  : to_image(candidate.logits, sizes_[static_cast<size_t>(query.image)]);
        result.candidates.push_back(std::move(candidate));
    }
    return result;
}

const ImageSession::ImageSize& ImageSession::size_of(int image) const {
    if (!encoded()) fail("no image was encoded: encode one before segmenting");
    if (image < 0 || image >= static_cast<int>(sizes_.size()))
        fail("the prompt asks for image ", image, ", but ", sizes_.size(), " were encoded");
    return sizes_[static_cast<size_t>(image)];
}

std::vector<VisualAnswer> ImageSession::segment(std::span<const VisualQuery> queries) {
    if (!encoded()) fail("no image was encoded: encode one before segmenting");
    if (queries.empty()) return {};
    const InteractiveHead& head = model_->interactive_head();
    for (const VisualQuery& query : queries) to_network(query);  // all are checked before any work is done
    std::vector<VisualAnswer> answers;
    size_t start = 0;
    while (start < queries.size()) {
        size_t end = start;
        while (end < queries.size() && end - start < kObjectsPerBatch && queries[end].image == queries[start].image)
            ++end;
        const InteractiveFeatures& features = clickable_features(queries[start].image);
        const Timing timing = time_step("mask_decoder");
        std::vector<InteractivePrompt> prompts;
        for (size_t i = start; i < end; ++i) prompts.push_back(interactive_prompt(queries[i]));
        const SamMaskDecoder::Output output = head.decode(ops_, features, prompts, model_->image_size());
        const Tensor full = on_image(output.masks, size_of(queries[start].image));
        const Tensor masks = ops_.download(output.masks);
        const Tensor iou = ops_.download(output.iou);
        const Tensor scores = output.object_score ? ops_.download(output.object_score) : Tensor();
        for (size_t i = start; i < end; ++i) {
            const auto row = static_cast<int64_t>(i - start);
            answers.push_back(answer(masks, iou, scores, full, row, queries[i]));
            trace_answer(ops_, output, row, queries[i].multimask, answers.back().candidates.front().index);
        }
        start = end;
    }
    return answers;
}

PointCandidates ImageSession::decode_points(std::span<const Point> points, int image) {
    const InteractiveHead& head = model_->interactive_head();
    if (points.empty()) fail("there is nothing to segment: give at least one point");
    std::vector<InteractivePrompt> prompts;
    for (const Point& point : points) {
        VisualQuery query;
        query.points = {{point.x, point.y, true}};
        query.image = image;
        prompts.push_back(interactive_prompt(query));
    }
    const InteractiveFeatures& features = clickable_features(image);
    const Timing timing = time_step("mask_decoder");
    const SamMaskDecoder::Output output = head.decode(ops_, features, prompts, model_->image_size());
    const int64_t candidates = output.iou.dim(1) - 1;  // without the single mask
    return {ops_.download(output.masks.slice(1, 1, candidates)), ops_.download(output.iou.slice(1, 1, candidates))};
}

StableMask ImageSession::enlarge(const Tensor& logits, float stability_offset, int image) const {
    const ImageSize& size = size_of(image);
    std::vector<float> buffer;
    return upsample_stable_mask(image_part(logits, size, buffer), size.width, size.height, stability_offset,
                                ops_.threads());
}

}  // namespace sam3
