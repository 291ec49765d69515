#pragma once

#include "weights/weight_file.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

// A model's configuration: the fields of a Hugging Face config.json, wherever a file keeps them.
namespace sam3 {

struct Configuration {
    nlohmann::json json;
    std::string where;  // for messages
};

// From config.json beside the weights, with the picture's mean and deviation out of the processor's file, or else from
// the metadata of a GGUF or .ggml file; from the metadata first if this program wrote the file. Empty when it has
// neither.
std::optional<Configuration> configuration_of(const WeightFile& file);

nlohmann::json parse_configuration(const std::string& text, const std::string& where);

// A configuration as GGUF keys: the architecture's name, then the path of the field, joined by dots:
// "sam3.detector_config.vision_config.backbone_config.hidden_size". `model_type` follows from the architecture.
Metadata configuration_to_metadata(const nlohmann::json& configuration, const std::string& architecture);
nlohmann::json configuration_from_metadata(const Metadata& metadata, const std::string& architecture,
                                           const std::string& where);

}  // namespace sam3
