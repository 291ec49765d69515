#include "formats/truth_names.h"

#include "util/error.h"

#include <filesystem>

namespace sam3 {

TruthNames::TruthNames(const GroundTruth& truth) : truth_(truth) {
    for (size_t i = 0; i < truth.media.size(); ++i) {
        const auto [found, fresh] = media_.emplace(key(truth.media[i].name), i);
        if (!fresh) found->second.reset();
    }
    for (size_t i = 0; i < truth.prompts.size(); ++i)
        prompts_[{truth.prompts[i].media, truth.prompts[i].phrase}].push_back(i);
}

size_t TruthNames::media(const std::string& name) const {
    const auto found = media_.find(key(name));
    if (found == media_.end()) fail(truth_.path, " has no picture or clip called '", key(name), "'");
    if (!found->second)
        fail(truth_.path, " has several pictures or clips called '", key(name), "': score COCO results instead");
    return *found->second;
}

const std::vector<size_t>& TruthNames::prompts(size_t media, const std::string& phrase) const {
    static const std::vector<size_t> kNone;
    const auto found = prompts_.find({media, phrase});
    return found == prompts_.end() ? kNone : found->second;
}

// Of a clip the name of its folder or file without ending, as `sam3 track` names its list.
std::string TruthNames::key(const std::string& name) const {
    const std::filesystem::path path(name);
    return (truth_.video ? path.stem() : path.filename()).string();
}

}  // namespace sam3
