#include "engine/model_registry.h"

#include "weights/name_maps.h"

namespace sam3 {

namespace {

// What the concept detector leaves alone in a complete checkpoint.
const std::vector<IgnoreRule>& unused_by_detector() {
    static const std::vector<IgnoreRule> rules = [] {
        std::vector<IgnoreRule> all = sam3_unused_weights();
        all.push_back({"tracker_model.**", "the tracker is loaded apart"});
        all.push_back({"tracker_neck.**", "the tracker is loaded apart"});
        return all;
    }();
    return rules;
}

}  // namespace

ModelDescription describe_model(const WeightFile& file) {
    ModelDescription description;
    description.names = &sam3_name_map(file);
    description.name = description.names->name;
    description.may_be_left = &unused_by_detector();
    if (const auto json = file.side_file("config.json"))
        description.config = Sam3Config::from_hugging_face(*json, *file.side_path("config.json"));
    return description;
}

}  // namespace sam3
