#pragma once

#include "formats/ground_truth.h"

#include <span>
#include <string>
#include <vector>

namespace sam3 {

// Which of the ground truth's lists an answer belongs to.
enum class Asked { phrases, exemplars, objects };

// One object that a model found.
struct Prediction {
    size_t subject = 0;  // index in that list: of prompts, exemplars or objects
    int clicks = 0;      // after how many clicks; 0 where there are none
    float score = 1;
    Track track;
};

// COCO's results for images, YouTube-VIS' for clips; or what this program writes: the JSON of `sam3 segment`, the lines
// of `sam3 track`, or a folder of either. A phrase that the ground truth does not ask about becomes one more prompt for
// an absent concept, as in the reference.
std::vector<Prediction> read_predictions(const std::string& path, Asked asked, GroundTruth& truth);

// One entry of COCO's or YouTube-VIS' results, without a line's end.
std::string to_result(const Prediction& prediction, Asked asked, const GroundTruth& truth);
// All of them, a line an object: read_predictions gives the same back.
std::string to_results(std::span<const Prediction> predictions, Asked asked, const GroundTruth& truth);

}  // namespace sam3
