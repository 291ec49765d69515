#include "eval_figures.h"

#include "eval/assignment.h"
#include "eval/clip_score.h"
#include "eval/concept_score.h"
#include "media/image_io.h"
#include "util/error.h"

#include <cstdio>
#include <iostream>
#include <unordered_map>

namespace sam3::cli {

namespace {

using Kind = Figure::Kind;
using Tracks = std::vector<const Track*>;

Figure count_of(const char* name, int64_t value) { return {name, static_cast<double>(value), Kind::count}; }

const std::vector<GroundTruth::Prompt>& prompts_of(const GroundTruth& truth, EvalTask task) {
    return task == EvalTask::exemplar ? truth.exemplars : truth.prompts;
}

std::vector<Tracks> by_prompt(std::span<const Prediction> predictions, size_t prompts, float threshold) {
    std::vector<Tracks> out(prompts);
    for (const Prediction& prediction : predictions)
        if (prediction.score >= threshold) out.at(prediction.subject).push_back(&prediction.track);
    return out;
}

Tracks objects_of(const GroundTruth& truth, const GroundTruth::Prompt& prompt) {
    Tracks out;
    for (const size_t object : prompt.objects) out.push_back(&truth.objects[object].track);
    return out;
}

// The same prompt in every annotator's file; nothing when one of them did not draw every instance.
std::vector<Tracks> annotations_of(std::span<const GroundTruth> truths,
                                   std::span<const std::unordered_map<int64_t, size_t>> places, EvalTask task,
                                   const GroundTruth::Prompt& prompt) {
    std::vector<Tracks> out;
    for (size_t i = 0; i < truths.size(); ++i) {
        const auto place = places[i].find(prompt.id);
        // What only the predictions ask about is absent for every annotator.
        if (place == places[i].end()) {
            if (!prompt.phrase.empty()) fail(truths[i].path, ": has no pair ", prompt.id, ", as ", truths[0].path);
            out.emplace_back();
            continue;
        }
        const GroundTruth::Prompt& theirs = prompts_of(truths[i], task)[place->second];
        if (!theirs.exhaustive) return {};
        out.push_back(objects_of(truths[i], theirs));
    }
    return out;
}

void add_concept_figures(std::vector<Figure>& out, const ConceptFigures& figures) {
    out.push_back(count_of("prompts", figures.prompts));
    out.push_back(count_of("absent", figures.absent));
    out.push_back(count_of("objects", figures.truths));
    out.push_back({"f1_50", figures.at50.f1});
    out.push_back({"precision_50", figures.at50.precision});
    out.push_back({"recall_50", figures.at50.recall});
    out.push_back({"mean_iou", figures.mean_iou});
    out.push_back({"pmf1", figures.mean.positive_f1});
    out.push_back({"pmf1_50", figures.at50.positive_f1});
    out.push_back({"pmf1_75", figures.at75.positive_f1});
    out.push_back({"macro_f1", figures.mean.positive_macro_f1});
    out.push_back({"f1", figures.mean.f1});
    out.push_back({"il_recall", figures.il_recall});
    if (figures.absent == 0) return;  // whether a concept is there was not asked
    out.push_back({"absent_recognised", figures.absent_recognised});
    out.push_back({"il_precision", figures.il_precision});
    out.push_back({"il_f1", figures.il_f1});
    out.push_back({"il_fpr", figures.il_fpr, Kind::lower_is_better});
    out.push_back({"il_mcc", figures.il_mcc});
    out.push_back({"cgf1", figures.mean.cgf1});
    out.push_back({"cgf1_50", figures.at50.cgf1});
    out.push_back({"cgf1_75", figures.at75.cgf1});
}

// J and F of true tracks that a phrase names, and how often their identity changes.
struct TextClips {
    double j = 0, f = 0;
    int64_t tracks = 0, extra = 0, switches = 0, switched = 0;

    void add(const Tracks& predicted, const Tracks& truth) {
        std::vector<double> values;
        for (const Track* object : truth)
            for (const Track* prediction : predicted) {
                // Without a common pixel they do not stand for each other, even where both are mostly hidden.
                const bool meet = track_iou(*prediction, *object) > 0;
                values.push_back(meet ? mean_j(*prediction, *object) : 0.0);
            }
        const std::vector<int> pairs = assign(values, truth.size(), predicted.size());
        extra += static_cast<int64_t>(predicted.size());
        for (size_t i = 0; i < pairs.size(); ++i) {
            const auto other = static_cast<size_t>(std::max(0, pairs[i]));
            if (pairs[i] < 0 || values[i * predicted.size() + other] == 0) continue;
            const ClipFigures score = score_track(*predicted[other], *truth[i]);
            j += score.j;
            f += score.f;
            --extra;
        }
        const IdentityFigures identity = count_switches(predicted, truth);
        switches += identity.switches;
        switched += identity.switched_tracks;
        tracks += static_cast<int64_t>(truth.size());
    }

    void add_figures(std::vector<Figure>& out) const {
        const double count = std::max<double>(1, static_cast<double>(tracks));
        out.push_back({"j", j / count});
        out.push_back({"f", f / count});
        out.push_back({"j_and_f", (j + f) / (2 * count)});
        out.push_back({"switches_per_track", static_cast<double>(switches) / count, Kind::lower_is_better});
        out.push_back({"switched_tracks", static_cast<double>(switched) / count, Kind::lower_is_better});
        out.push_back({"extra_tracks", static_cast<double>(extra) / count, Kind::lower_is_better});
    }
};

std::vector<Figure> score_concepts(std::span<const GroundTruth> truths, EvalTask task,
                                   std::span<const Prediction> predictions, float threshold) {
    const std::vector<GroundTruth::Prompt>& prompts = prompts_of(truths[0], task);
    const std::vector<Tracks> found = by_prompt(predictions, prompts.size(), threshold);
    std::vector<std::unordered_map<int64_t, size_t>> places(truths.size());
    for (size_t i = 0; i < truths.size(); ++i) {
        const auto& theirs = prompts_of(truths[i], task);
        for (size_t k = 0; k < theirs.size(); ++k) places[i][theirs[k].id] = k;
    }
    ConceptScore score;
    TextClips clips;
    for (size_t i = 0; i < prompts.size(); ++i) {
        const std::vector<Tracks> annotations = annotations_of(truths, places, task, prompts[i]);
        std::vector<PromptScore> scores;
        for (const Tracks& truth : annotations) scores.push_back(score_prompt(found[i], truth));
        if (scores.empty()) continue;
        score.add(most_favourable(scores));
        if (is_video(task)) clips.add(found[i], annotations[0]);
    }
    std::vector<Figure> out;
    add_concept_figures(out, score.figures());
    if (is_video(task)) clips.add_figures(out);
    return out;
}

// The answer for every object that is asked for, by number of clicks; nullptr where there is none.
std::vector<const Prediction*> answers_after(int clicks, std::span<const Prediction> predictions,
                                             const GroundTruth& truth) {
    std::vector<const Prediction*> out(truth.objects.size(), nullptr);
    for (const Prediction& prediction : predictions) {
        if (prediction.clicks != clicks) continue;
        const Prediction*& place = out.at(prediction.subject);
        if (place != nullptr)
            fail("there are two predictions for annotation ", truth.objects[prediction.subject].id, " after ", clicks,
                 clicks == 1 ? " click" : " clicks");
        place = &prediction;
    }
    return out;
}

std::vector<Figure> score_clicks(const GroundTruth& truth, EvalTask task, std::span<const Prediction> predictions) {
    std::vector<Figure> out;
    for (int clicks = 1; clicks <= clicks_of(task); ++clicks) {
        const std::vector<const Prediction*> answers = answers_after(clicks, predictions, truth);
        ClipFigures sum;
        int64_t objects = 0;
        for (size_t i = 0; i < truth.objects.size(); ++i) {
            if (!truth.objects[i].clickable) continue;
            ++objects;
            if (answers[i] == nullptr) continue;
            const Track& track = truth.objects[i].track;
            // Of a clip the frame that was clicked on does not count.
            const ClipFigures score = score_track(answers[i]->track, track, track.size() > 1 ? 1 : 0);
            sum.j += score.j;
            sum.f += score.f;
            sum.last_j += score.last_j;
        }
        const double count = std::max<double>(1, static_cast<double>(objects));
        if (clicks == 1) out.push_back(count_of("objects", objects));
        if (!is_video(task)) {
            out.push_back({clicks == 1 ? "mean_iou_1_click" : str("mean_iou_", clicks, "_clicks"), sum.j / count});
            continue;
        }
        out.push_back({"j", sum.j / count});
        out.push_back({"f", sum.f / count});
        out.push_back({"j_and_f", (sum.j + sum.f) / (2 * count)});
        out.push_back({"j_last_frame", sum.last_j / count});
    }
    return out;
}

}  // namespace

std::vector<Figure> score_predictions(std::span<const GroundTruth> truths, EvalTask task,
                                      std::span<const Prediction> predictions, float threshold) {
    if (is_concept(task)) return score_concepts(truths, task, predictions, threshold);
    return score_clicks(truths[0], task, predictions);
}

void print_figures(std::span<const Figure> figures) {
    for (const Figure& figure : figures) {
        char value[32];
        std::snprintf(value, sizeof value, figure.kind == Kind::count ? "%8.0f" : "%8.4f", figure.value);
        std::cout << figure.name << std::string(20 - std::min<size_t>(19, figure.name.size()), ' ') << value << "\n";
    }
}

nlohmann::ordered_json figures_json(std::span<const Figure> figures) {
    nlohmann::ordered_json json;
    for (const Figure& figure : figures) {
        if (figure.kind == Kind::count)
            json[figure.name] = static_cast<int64_t>(figure.value);
        else
            json[figure.name] = figure.value;
    }
    return json;
}

void compare_with(const std::string& path, std::span<const Figure> figures, double tolerance) {
    const std::vector<uint8_t> bytes = read_file(path);
    const auto json = nlohmann::json::parse(bytes.begin(), bytes.end(), nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("figures") || !json["figures"].is_object())
        fail(path, ": expected figures as 'sam3 eval --json' prints them");
    std::string worse;
    for (const Figure& figure : figures) {
        const auto before = json["figures"].find(figure.name);
        if (before == json["figures"].end() || !before->is_number())
            fail(path, ": has no figure '", figure.name, "': is it of another task?");
        const double was = before->get<double>();
        if (figure.kind == Kind::count) {
            if (was != figure.value)
                fail(path, ": counts ", was, " ", figure.name, ", not ", figure.value, ": it is of another set");
            continue;
        }
        const double loss = figure.kind == Kind::lower_is_better ? figure.value - was : was - figure.value;
        constexpr double kRounding = 1e-9;
        if (loss > tolerance + kRounding)
            worse += str(worse.empty() ? "" : ", ", figure.name, " ", figure.value, " instead of ", was);
    }
    if (!worse.empty()) fail("worse than in ", path, " by more than ", tolerance, ": ", worse);
}

}  // namespace sam3::cli
