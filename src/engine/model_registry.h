#pragma once

#include "models/image_model.h"
#include "models/sam3_config.h"
#include "models/video_config.h"
#include "nn/module.h"
#include "weights/name_map.h"
#include "weights/weight_file.h"

#include <memory>
#include <string>

namespace sam3 {

// A network with what the engine must know about it.
struct LoadedNetwork {
    std::unique_ptr<ImageModel> network;
    std::string name;  // "SAM 3, Hugging Face's names"
    Behaviour behaviour;
    TextConfig text;           // of the detector, if there is one
    ConceptVideoConfig video;  // how detector and tracker work together, if both are there
};

struct NetworkOptions {
    std::string behaviour;  // empty: as the file says
};

// The one place that knows which families and name styles exist.
const NameMap& name_map_of(const WeightFile& file);  // fails with what was looked for
LoadedNetwork load_network(const std::shared_ptr<const WeightFile>& file, const nn::LoadContext& context,
                           const NetworkOptions& options);

}  // namespace sam3
