#include "engine/model_registry.h"

#include "models/configuration.h"
#include "models/json_section.h"
#include "models/precision_policy.h"
#include "models/sam1.h"
#include "models/sam3.h"
#include "runtime/shape_device.h"
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

Sam3Config sam3_config(const WeightFile& file, const NameMap& names, const NetworkOptions& options) {
    Sam3Config config;
    if (const auto found = configuration_of(file)) config = Sam3Config::from_json(found->json, found->where);
    if (!options.behaviour.empty()) config.behaviour = Behaviour::by_name(options.behaviour);
    const Parts& parts = options.parts;
    config.has_tracker =
        config.has_tracker && (parts.clicks || parts.video) && has_name(file, names, "tracker_model.mask_decoder.");
    config.has_memory = parts.video && config.tracker.memory.fits(config.neck.hidden_size) &&
                        has_name(file, names, "tracker_model.memory_encoder.");
    config.has_detector = parts.concepts && has_name(file, names, "detector_model.detr_decoder.");
    return config;
}

ConceptVideoConfig video_config(const WeightFile& file) {
    const auto found = configuration_of(file);
    return found ? ConceptVideoConfig::from_json(found->json, found->where) : ConceptVideoConfig();
}

// Of a part of a model everything else is left over.
void finish(const WeightLoader& loader, const char* what, const Parts& parts, const std::vector<IgnoreRule>& unused) {
    if (parts.all())
        loader.finish(what, unused);
    else
        loader.finish(what);
}

std::unique_ptr<ImageModel> bind_sam3(const nn::LoadContext& context, WeightLoader& loader, Sam3Config config,
                                      const Parts& parts) {
    if (config.behaviour.name == "hf") config.behaviour.vit_norm_eps = config.vit.norm_eps;
    auto network = std::make_unique<Sam3>(context, loader.root(), config);
    finish(loader, "SAM 3", parts, unused_weights(config));
    return network;
}

Sam1Config sam1_config(WeightLoader& loader) {
    const auto found = configuration_of(loader.file());
    return found ? Sam1Config::from_json(found->json, found->where)
                 : Sam1Config::from_weights(loader.root(), loader.file().path());
}

std::unique_ptr<ImageModel> bind_sam1(const nn::LoadContext& context, WeightLoader& loader, const Sam1Config& config) {
    auto network = std::make_unique<Sam1>(context, loader.root(), config);
    loader.finish("SAM 1", sam1_unused_weights());
    return network;
}

}  // namespace

const NameMap& name_map_of(const WeightFile& file) { return is_sam1(file) ? sam1_name_map(file) : sam3_name_map(file); }

LoadedNetwork load_network(const std::shared_ptr<const WeightFile>& file, const nn::LoadContext& context,
                           const NetworkOptions& options) {
    if (is_sam1(*file)) {
        if (!options.behaviour.empty()) Behaviour::by_name(options.behaviour);
        const NameMap& names = sam1_name_map(*file);
        WeightLoader loader(file, names);
        return {bind_sam1(context, loader, sam1_config(loader)), std::string(names.name), {}, {}, {}};
    }
    const NameMap& names = sam3_name_map(*file);
    const Sam3Config config = sam3_config(*file, names, options);
    WeightLoader loader(file, names);
    return {bind_sam3(context, loader, config, options.parts), std::string(names.name), config.behaviour, config.text,
            video_config(*file)};
}

NetworkPlan plan_network(const std::shared_ptr<const WeightFile>& file, const NetworkOptions& options) {
    ShapeDevice device;
    const bool first = is_sam1(*file);
    NetworkPlan plan;
    plan.architecture = first ? "sam1" : "sam3";
    plan.names = &(first ? sam1_name_map(*file) : sam3_name_map(*file));
    WeightLoader loader(file, *plan.names, Reading::shapes);
    Json json;
    if (first) {
        const Sam1Config config = sam1_config(loader);
        bind_sam1({device}, loader, config);
        json = config.to_json();
    } else {
        const Sam3Config config = sam3_config(*file, *plan.names, options);
        bind_sam3({device}, loader, config, options.parts);
        json = config.to_json();
        json.update(video_config(*file).to_json());
    }
    plan.configuration = std::make_shared<const Json>(std::move(json));
    plan.tensors = loader.used_names();
    for (const std::string& name : plan.tensors) {
        const std::optional<WeightLoader::Product> product = loader.product(name);
        if (product && precision_policy(name, Precision::int8) == Precision::int8)
            plan.int8_layers.emplace(name, *product);
    }
    return plan;
}

}  // namespace sam3
