#pragma once

#include "eval_task.h"

#include <nlohmann/json.hpp>

#include <span>
#include <string>
#include <vector>

// The figures of a set of predictions, by name (docs/eval.md).
namespace sam3::cli {

struct Figure {
    enum class Kind { count, higher_is_better, lower_is_better };
    std::string name;
    double value = 0;
    Kind kind = Kind::higher_is_better;
};

// truths: one, or those of several annotators of the same prompts, of which the most favourable counts.
// Of concepts only predictions with at least this score count.
std::vector<Figure> score_predictions(std::span<const GroundTruth> truths, EvalTask task,
                                      std::span<const Prediction> predictions, float threshold);

void print_figures(std::span<const Figure> figures);
nlohmann::ordered_json figures_json(std::span<const Figure> figures);

// Fails with a sentence that names every figure that is worse by more than `tolerance` than in `path`, an earlier
// --json output; so it does when the two count different things.
void compare_with(const std::string& path, std::span<const Figure> figures, double tolerance);

}  // namespace sam3::cli
