#pragma once

#include "formats/predictions.h"

namespace sam3 {

// Whether `path` is something that this program wrote, or a folder.
bool is_own_prediction(const std::string& path);

// The JSON of `sam3 segment` (.json), the lines of `sam3 track` (.jsonl), or a folder of either. Pictures are found by
// the name of the file, clips by the name of the list of lines. Everything that is asked must have been answered.
std::vector<Prediction> read_own_predictions(const std::string& path, const GroundTruth& truth);

}  // namespace sam3
