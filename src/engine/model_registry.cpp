#include "engine/model_registry.h"

#include "models/sam1.h"
#include "models/sam3.h"
#include "util/error.h"
#include "weights/binder.h"
#include "weights/name_maps.h"
#include "weights/name_maps_sam1.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace sam3 {

namespace {

// What may stay unread in a complete SAM 3 checkpoint.
std::vector<IgnoreRule> unused_weights(const Sam3Config& config) {
    std::vector<IgnoreRule> rules = sam3_unused_weights();
    rules.push_back({"tracker_model.no_memory_positional_encoding", "no part of the network reads it"});
    if (!config.has_memory)
        for (const char* part :
             {"tracker_model.memory_**", "tracker_model.mask_downsample.**", "tracker_model.object_pointer_proj.**",
              "tracker_model.temporal_positional_encoding_projection_layer.**", "tracker_model.no_object_pointer",
              "tracker_model.occlusion_spatial_embedding_parameter"})
            rules.push_back({part, "memory of earlier frames, which is incomplete"});
    rules.push_back({"tracker_model.shared_image_embedding.positional_embedding", "equals the prompt encoder's"});
    if (!config.has_tracker) {
        rules.push_back({"tracker_model.**", "the tracker was not asked for"});
        rules.push_back({"tracker_neck.**", "the tracker was not asked for"});
    }
    return rules;
}

bool has_name(const WeightFile& file, const NameMap& names, std::string_view prefix) {
    return std::any_of(file.tensors().begin(), file.tensors().end(), [&](const WeightTensor& tensor) {
        for (const MappedName& mapped : map_name(names, tensor.name))
            if (std::string_view(mapped.canonical).starts_with(prefix)) return true;
        return false;
    });
}

Sam3Config sam3_config(const WeightFile& file, const NameMap& names) {
    Sam3Config config;
    if (const auto json = file.side_file("config.json"))
        config = Sam3Config::from_hugging_face(*json, *file.side_path("config.json"));
    config.has_tracker = config.has_tracker && has_name(file, names, "tracker_model.mask_decoder.");
    config.has_memory =
        config.tracker.memory.fits(config.neck.hidden_size) && has_name(file, names, "tracker_model.memory_encoder.");
    config.has_detector = has_name(file, names, "detector_model.detr_decoder.");
    return config;
}

LoadedNetwork load_sam3(const std::shared_ptr<const WeightFile>& file, const nn::LoadContext& context,
                        const NetworkOptions& options) {
    const NameMap& names = sam3_name_map(*file);
    Sam3Config config = sam3_config(*file, names);
    if (!options.behaviour.empty()) config.behaviour = Behaviour::by_name(options.behaviour);
    if (config.behaviour.name == "hf") config.behaviour.vit_norm_eps = config.vit.norm_eps;
    WeightLoader loader(file, names);
    auto network = std::make_unique<Sam3>(context, loader.root(), config);
    loader.finish("SAM 3", unused_weights(config));
    ConceptVideoConfig video;
    if (const auto json = file->side_file("config.json"))
        video = ConceptVideoConfig::from_hugging_face(*json, *file->side_path("config.json"));
    return {std::move(network), std::string(names.name), config.behaviour, config.text, video};
}

LoadedNetwork load_sam1(const std::shared_ptr<const WeightFile>& file, const nn::LoadContext& context,
                        const NetworkOptions& options) {
    if (!options.behaviour.empty()) Behaviour::by_name(options.behaviour);
    const NameMap& names = sam1_name_map(*file);
    WeightLoader loader(file, names);
    const auto json = file->side_file("config.json");
    const Sam1Config config = json ? Sam1Config::from_hugging_face(*json, *file->side_path("config.json"))
                                   : Sam1Config::from_weights(loader.root(), file->path());
    auto network = std::make_unique<Sam1>(context, loader.root(), config);
    loader.finish("SAM 1", sam1_unused_weights());
    return {std::move(network), std::string(names.name), {}, {}, {}};
}

}  // namespace

const NameMap& name_map_of(const WeightFile& file) { return is_sam1(file) ? sam1_name_map(file) : sam3_name_map(file); }

LoadedNetwork load_network(const std::shared_ptr<const WeightFile>& file, const nn::LoadContext& context,
                           const NetworkOptions& options) {
    return is_sam1(*file) ? load_sam1(file, context, options) : load_sam3(file, context, options);
}

}  // namespace sam3
