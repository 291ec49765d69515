#pragma once

#include "eval_task.h"
#include "model_options.h"
#include "status.h"

#include <string>
#include <vector>

namespace sam3::cli {

// Runs a model over the set: every picture is encoded once for all that is asked about it, every clip read once.
// folder: where the files of the ground truth lie.
std::vector<Prediction> predict(const GroundTruth& truth, EvalTask task, const std::string& folder,
                                const ModelOptions& options, float threshold, Status& status);

}  // namespace sam3::cli
