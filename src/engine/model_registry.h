#pragma once

#include "models/sam3_config.h"
#include "weights/name_map.h"
#include "weights/weight_file.h"

#include <string>
#include <vector>

namespace sam3 {

// What a weight file holds and how to read it.
struct ModelDescription {
    std::string name;  // "SAM 3 (image and video), Hugging Face's names"
    Sam3Config config;
    const NameMap* names = nullptr;
    const std::vector<IgnoreRule>* may_be_left = nullptr;
};

// The one place that knows which families and name styles exist. Fails with what was looked for.
ModelDescription describe_model(const WeightFile& file);

}  // namespace sam3
