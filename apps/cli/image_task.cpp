#include "image_task.h"

#include "util/error.h"

#include <algorithm>
#include <utility>

namespace sam3::cli {

namespace {

void add_concepts(Segmentation& out, const std::vector<ConceptPrompt>& prompts, std::vector<ConceptResult>& results) {
    for (size_t i = 0; i < results.size(); ++i) {
        const std::string label = prompts[i].text.empty() ? "visual" : prompts[i].text;
        out.prompts.push_back({label, results[i].presence, std::move(results[i].semantic)});
        for (Detection& d : results[i].detections)
            out.instances.push_back(
                {label, static_cast<int>(i), d.score, d.box.x0, d.box.y0, d.box.x1, d.box.y1, std::move(d.mask)});
    }
}

void take_answer(Segmentation::Instance& instance, VisualAnswer& answer, bool multimask) {
    if (multimask)
        for (const VisualCandidate& candidate : answer.candidates)
            instance.candidates.push_back({candidate.iou, candidate.mask});
    instance.mask = std::move(answer.candidates.front().mask);
    const Box box = box_around(instance.mask);
    instance.x0 = box.x0;
    instance.y0 = box.y0;
    instance.x1 = box.x1;
    instance.y1 = box.y1;
}

// Objects that were pointed at, without a concept: one instance each.
void add_objects(Segmentation& out, const std::vector<VisualQuery>& queries, ImageSession& session) {
    std::vector<VisualAnswer> answers = session.segment(queries);
    for (size_t i = 0; i < answers.size(); ++i) {
        Segmentation::Instance instance;
        instance.label = "object " + std::to_string(i);
        instance.prompt = static_cast<int>(out.prompts.size());
        instance.score = answers[i].candidates.front().iou;
        out.prompts.push_back({instance.label, answers[i].object_score, {}});
        take_answer(instance, answers[i], queries[i].multimask);
        out.instances.push_back(std::move(instance));
    }
}

bool contains(const Mask& mask, const VisualQuery& query) {
    for (const auto& point : query.points) {
        if (!point.positive) continue;
        const int x = std::clamp(static_cast<int>(point.x), 0, mask.width - 1);
        const int y = std::clamp(static_cast<int>(point.y), 0, mask.height - 1);
        if (mask.at(x, y) != 0) return true;
    }
    return false;
}

// The found instance that a click or box means: under a positive click, else the one with the most similar box.
Detection* meant_by(const VisualQuery& query, std::vector<ConceptResult>& results) {
    Detection* best = nullptr;
    float overlap = 0;
    for (ConceptResult& result : results) {
        for (Detection& detection : result.detections) {
            if (contains(detection.mask, query)) return &detection;
            const float iou = query.box ? box_iou(*query.box, detection.box) : 0.0F;
            if (iou > overlap) {
                overlap = iou;
                best = &detection;
            }
        }
    }
    return best;
}

// Clicks after a concept correct the instance that they are on.
void refine(std::vector<ConceptResult>& results, const std::vector<VisualQuery>& queries, ImageSession& session) {
    for (VisualQuery query : queries) {
        Detection* detection = meant_by(query, results);
        if (detection == nullptr)
            fail(
                "none of the instances that were found lies under the click or box: lower --threshold or leave --text "
                "out");
        if (!query.mask_logits && query.mask.data.empty())
            query.mask_logits = session.ops().contiguous(detection->logits);
        query.multimask = false;
        VisualAnswer answer = session.segment({&query, 1}).front();
        detection->mask = std::move(answer.candidates.front().mask);
        detection->box = box_around(detection->mask);
    }
}

// Three readings of every found instance, from the interactive head.
void add_candidates(Segmentation& out, const std::vector<VisualQuery>& queries, ImageSession& session) {
    const std::vector<VisualAnswer> answers = session.segment(queries);
    for (size_t i = 0; i < answers.size(); ++i)
        for (const VisualCandidate& candidate : answers[i].candidates)
            out.instances[i].candidates.push_back({candidate.iou, candidate.mask});
}

std::vector<VisualQuery> candidate_queries(const std::vector<ConceptResult>& results) {
    std::vector<VisualQuery> queries;
    for (const ConceptResult& result : results) {
        for (const Detection& detection : result.detections) {
            VisualQuery query;
            query.box = detection.box;
            query.mask_logits = detection.logits;
            query.multimask = true;
            queries.push_back(std::move(query));
        }
    }
    return queries;
}

Segmentation find(ImageSession& session, const std::vector<ConceptPrompt>& prompts,
                  const std::vector<VisualQuery>& queries, bool multimask) {
    Segmentation out;
    if (prompts.empty()) {
        add_objects(out, queries, session);
        return out;
    }
    std::vector<ConceptResult> results = session.segment(prompts);
    if (!queries.empty()) refine(results, queries, session);
    const std::vector<VisualQuery> more = multimask ? candidate_queries(results) : std::vector<VisualQuery>();
    add_concepts(out, prompts, results);
    if (multimask) add_candidates(out, more, session);
    return out;
}

}  // namespace

void load_masks(ImageTask& task) {
    for (ClickObject& object : task.objects) load_mask(object);
}

Segmentation segment_image(ImageSession& session, const Image& image, const ImageTask& task) {
    session.expect(task.concepts);
    session.encode({&image, 1});
    std::vector<ConceptPrompt> prompts = task.concepts;
    for (ConceptPrompt& prompt : prompts)
        if (prompt.options.threshold < 0) prompt.options.threshold = session.model().behaviour().threshold;
    std::vector<VisualQuery> queries;
    for (const ClickObject& object : task.objects) {
        queries.push_back(object.query);
        queries.back().multimask = task.multimask;
    }
    Segmentation out = find(session, prompts, queries, task.multimask);
    out.width = image.width;
    out.height = image.height;
    out.seconds = session.seconds();
    return out;
}

}  // namespace sam3::cli
