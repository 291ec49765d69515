#pragma once

#include "formats/ground_truth.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sam3 {

// Finds what a result is about in the ground truth, which must outlive it: pictures and clips by the last part of their
// name, questions by phrase.
class TruthNames {
public:
    explicit TruthNames(const GroundTruth& truth);

    // The place in truth.media. Fails with a sentence when there is none, or several.
    size_t media(const std::string& name) const;
    // The places in truth.prompts, most often one or none.
    const std::vector<size_t>& prompts(size_t media, const std::string& phrase) const;

private:
    std::string key(const std::string& name) const;

    const GroundTruth& truth_;
    std::map<std::string, std::optional<size_t>> media_;  // nothing: two have the same name
    std::map<std::pair<size_t, std::string>, std::vector<size_t>> prompts_;
};

}  // namespace sam3
