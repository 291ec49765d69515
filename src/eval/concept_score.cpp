#include "eval/concept_score.h"

#include "eval/assignment.h"
#include "util/error.h"

#include <algorithm>
#include <cmath>

namespace sam3 {

namespace {

constexpr double kSmall = 1e-4;         // the reference's guard against division by 0, for masks
constexpr double kSmallPrompts = 1e-6;  // and for prompts
constexpr size_t kAt50 = 0, kAt75 = 5;  // indices of those thresholds

double share(int64_t part, int64_t rest, double small) {
    return static_cast<double>(part) / (static_cast<double>(part + rest) + small);
}

double harmonic(double a, double b, double small) { return 2 * a * b / (a + b + small); }

OverlapFigures average(std::span<const OverlapFigures> all) {
    OverlapFigures mean;
    for (double OverlapFigures::*member :
         {&OverlapFigures::cgf1, &OverlapFigures::precision, &OverlapFigures::recall, &OverlapFigures::f1,
          &OverlapFigures::positive_precision, &OverlapFigures::positive_f1, &OverlapFigures::positive_macro_f1}) {
        for (const OverlapFigures& one : all) mean.*member += one.*member;
        mean.*member /= static_cast<double>(all.size());
    }
    return mean;
}

}  // namespace

const std::array<double, kOverlapThresholds>& overlap_thresholds() {
    static const std::array<double, kOverlapThresholds> thresholds = [] {
        std::array<double, kOverlapThresholds> out{};
        const double step = (0.95 - 0.5) / 9.0;
        for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<double>(i) * step + 0.5;
        out.back() = 0.95;
        return out;
    }();
    return thresholds;
}

int PromptScore::matches(double threshold) const {
    return static_cast<int>(
        std::count_if(overlaps.begin(), overlaps.end(), [&](double overlap) { return overlap >= threshold; }));
}

double PromptScore::f1(double threshold) const {
    const int right = matches(threshold);
    return harmonic(share(right, predictions - right, kSmall), share(right, truths - right, kSmall), kSmall);
}

double PromptScore::mean_f1() const {
    double sum = 0;
    for (const double threshold : overlap_thresholds()) sum += f1(threshold);
    return sum / kOverlapThresholds;
}

PromptScore score_prompt(std::span<const Track* const> predicted, std::span<const Track* const> truth) {
    PromptScore score{static_cast<int>(truth.size()), static_cast<int>(predicted.size()), {}};
    std::vector<double> overlaps;
    for (const Track* prediction : predicted)
        for (const Track* object : truth) overlaps.push_back(track_iou(*prediction, *object));
    const std::vector<int> pairs = assign(overlaps, predicted.size(), truth.size());
    for (size_t i = 0; i < pairs.size(); ++i)
        if (pairs[i] >= 0) score.overlaps.push_back(overlaps[i * truth.size() + static_cast<size_t>(pairs[i])]);
    return score;
}

const PromptScore& most_favourable(std::span<const PromptScore> scores) {
    if (scores.empty()) fail("there is no annotator to choose from");
    const PromptScore* best = &scores[0];
    // Nothing to find and nothing found is perfect, though its F1 is 0.
    for (const PromptScore& score : scores)
        if (score.nothing() || score.mean_f1() > best->mean_f1()) best = &score;
    return *best;
}

void ConceptScore::add(const PromptScore& score) {
    truths_ += score.truths;
    predictions_ += score.predictions;
    const bool there = score.truths > 0, found = score.predictions > 0;
    ++(there ? (found ? true_positives_ : false_negatives_) : (found ? false_positives_ : true_negatives_));
    for (const double overlap : score.overlaps)
        if (overlap >= overlap_thresholds()[kAt50]) overlap_sum_ += overlap;
    for (size_t i = 0; i < kOverlapThresholds; ++i) {
        const int right = score.matches(overlap_thresholds()[i]);
        counts_[i].right += right;
        counts_[i].extra += score.predictions - right;
        counts_[i].missed += score.truths - right;
        if (!there) continue;
        counts_[i].positive_extra += score.predictions - right;
        if (found) counts_[i].positive_f1_sum += score.f1(overlap_thresholds()[i]);
    }
}

OverlapFigures ConceptScore::at(const Counts& counts, double mcc) const {
    OverlapFigures out;
    out.precision = share(counts.right, counts.extra, kSmall);
    out.recall = share(counts.right, counts.missed, kSmall);
    out.f1 = harmonic(out.precision, out.recall, kSmall);
    out.positive_precision = share(counts.right, counts.positive_extra, kSmall);
    out.positive_f1 = harmonic(out.positive_precision, out.recall, kSmall);
    if (true_positives_ > 0) out.positive_macro_f1 = counts.positive_f1_sum / static_cast<double>(true_positives_);
    out.cgf1 = out.positive_f1 * mcc;
    return out;
}

ConceptFigures ConceptScore::figures() const {
    ConceptFigures out;
    out.prompts = true_positives_ + false_positives_ + true_negatives_ + false_negatives_;
    out.absent = false_positives_ + true_negatives_;
    out.truths = truths_;
    out.predictions = predictions_;
    out.il_recall = share(true_positives_, false_negatives_, kSmallPrompts);
    out.il_precision = share(true_positives_, false_positives_, kSmallPrompts);
    out.il_f1 = harmonic(out.il_precision, out.il_recall, kSmallPrompts);
    out.il_fpr = share(false_positives_, true_negatives_, kSmallPrompts);
    const auto tp = static_cast<double>(true_positives_), fp = static_cast<double>(false_positives_);
    const auto tn = static_cast<double>(true_negatives_), fn = static_cast<double>(false_negatives_);
    // Matthews' correlation of "found" and "there"
    out.il_mcc = (tp * tn - fp * fn) / (std::sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) + kSmallPrompts);
    out.absent_recognised = out.absent == 0 ? 1.0 : tn / static_cast<double>(out.absent);
    out.mean_iou = counts_[kAt50].right == 0 ? 0.0 : overlap_sum_ / static_cast<double>(counts_[kAt50].right);
    std::array<OverlapFigures, kOverlapThresholds> all;
    for (size_t i = 0; i < all.size(); ++i) all[i] = at(counts_[i], out.il_mcc);
    out.mean = average(all);
    out.at50 = all[kAt50];
    out.at75 = all[kAt75];
    return out;
}

}  // namespace sam3
