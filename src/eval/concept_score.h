#pragma once

#include "mask/track.h"

#include <array>
#include <span>
#include <vector>

// SAM 3's measures of "find everything that this phrase names" on images and clips: cgF1 and what it is made of, in the
// form of Meta's cgf1_eval.py down to the small constants in its divisors. docs/eval.md has the formulas.
namespace sam3 {

// 0.50, 0.55, ... 0.95, the same doubles as NumPy's linspace gives COCO's tools.
inline constexpr size_t kOverlapThresholds = 10;
const std::array<double, kOverlapThresholds>& overlap_thresholds();

// What was found for one phrase on one image or clip, beside what one annotator drew.
struct PromptScore {
    int truths = 0, predictions = 0;
    std::vector<double> overlaps;  // IoU of the pairs with the greatest sum of IoU

    int matches(double threshold) const;  // pairs whose IoU is at least the threshold
    bool nothing() const { return truths == 0 && predictions == 0; }
    double f1(double threshold) const;
    double mean_f1() const;  // over all thresholds
};

PromptScore score_prompt(std::span<const Track* const> predicted, std::span<const Track* const> truth);

// Of several annotators' truths the one most in favour of the prediction: SA-Co/Gold is scored so.
const PromptScore& most_favourable(std::span<const PromptScore> scores);

struct OverlapFigures {
    double cgf1 = 0;                                // positive_f1 * il_mcc
    double precision = 0, recall = 0, f1 = 0;       // over all prompts together
    double positive_precision = 0;                  // over prompts whose concept is there
    double positive_f1 = 0, positive_macro_f1 = 0;  // the first is the paper's pmF1
};

struct ConceptFigures {
    OverlapFigures mean, at50, at75;  // mean: over all thresholds
    // Does the concept occur at all? Per prompt, however good the masks are.
    double il_precision = 0, il_recall = 0, il_f1 = 0, il_fpr = 0, il_mcc = 0;
    double mean_iou = 0;           // of the pairs with an IoU of at least 0.5
    double absent_recognised = 0;  // share of the absent concepts for which nothing was found; 1 when none is absent
    int64_t prompts = 0, absent = 0, truths = 0, predictions = 0;
};

class ConceptScore {
public:
    void add(const PromptScore& score);
    ConceptFigures figures() const;

private:
    struct Counts {
        int64_t right = 0, extra = 0, missed = 0;
        int64_t positive_extra = 0;  // on prompts whose concept is there
        double positive_f1_sum = 0;  // of those with predictions
    };
    OverlapFigures at(const Counts& counts, double mcc) const;

    std::array<Counts, kOverlapThresholds> counts_{};
    int64_t true_positives_ = 0, false_positives_ = 0, true_negatives_ = 0, false_negatives_ = 0;  // prompts
    int64_t truths_ = 0, predictions_ = 0;
    double overlap_sum_ = 0;
};

}  // namespace sam3
