#pragma once

#include "models/image_model.h"
#include "models/sam3_config.h"
#include "models/video_config.h"
#include "nn/module.h"
#include "weights/binder.h"
#include "weights/name_map.h"
#include "weights/weight_file.h"

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace sam3 {

// A network with what the engine must know about it.
struct LoadedNetwork {
    std::unique_ptr<ImageModel> network;
    std::string name;  // "SAM 3, Hugging Face's names"
    Behaviour behaviour;
    TextConfig text;           // of the detector, if there is one
    ConceptVideoConfig video;  // how detector and tracker work together, if both are there
};

// What a job needs; the weights of other parts are not read.
struct Parts {
    bool concepts = true;  // text and exemplars
    bool clicks = true;    // points, boxes and masks
    bool video = true;     // memory of earlier frames; follows clicks as well
    bool all() const { return concepts && clicks && video; }
};

struct NetworkOptions {
    std::string behaviour{};  // empty: as the file says
    Parts parts{};
};

// What a network is made of, found out without reading its weights.
struct NetworkPlan {
    std::string architecture;  // "sam3", "sam1"
    const NameMap* names = nullptr;
    std::shared_ptr<const nlohmann::json> configuration;  // complete, also where the file left it to defaults
    std::vector<std::string> tensors;                     // canonical names that the network reads
    std::unordered_map<std::string, WeightLoader::Product> int8_layers;  // those of them that int8 may store as codes
};

// The one place that knows which families and name styles exist. All fail with a sentence when a file is none of them;
// the last two also with everything that is missing or mis-shaped.
const NameMap& name_map_of(const WeightFile& file);
LoadedNetwork load_network(const std::shared_ptr<const WeightFile>& file, const nn::LoadContext& context,
                           const NetworkOptions& options);
NetworkPlan plan_network(const std::shared_ptr<const WeightFile>& file, const NetworkOptions& options);

}  // namespace sam3
