#pragma once

#include "models/prompt_encoder.h"
#include "models/sam_mask_decoder.h"
#include "weights/binder.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <vector>

// Every size of a SAM 1 network. Defaults are those of Meta's released ViT-B checkpoint.
namespace sam3 {

struct Sam1VisionConfig {
    int64_t image_size = 1024;  // pixels, square: the grid of the stored position embeddings
    int64_t patch_size = 16;
    int64_t hidden_size = 768;
    int64_t mlp_size = 3072;
    int64_t output_channels = 256;
    int layers = 12;
    int heads = 12;
    int window = 14;
    std::vector<int> global_layers = {2, 5, 8, 11};
    float norm_eps = 1e-6F;
    Activation activation = Activation::gelu;

    int64_t grid() const { return image_size / patch_size; }
    int64_t head_size() const { return hidden_size / heads; }
    bool is_global(int layer) const;
};

struct Sam1Config {
    Sam1VisionConfig vision;
    PromptEncoderConfig prompt{.box_padding_point = false, .empty_points = 0};
    // Meta's layers normalise with 1e-5, transformers' with their config's 1e-6.
    SamMaskDecoderConfig decoder{
        .transformer = {}, .high_resolution = false, .object_score = false, .iou_sigmoid = false};
    std::vector<float> image_mean = {0.485F, 0.456F, 0.406F};
    std::vector<float> image_std = {0.229F, 0.224F, 0.225F};

    // From the fields of a Hugging Face config.json of model_type sam. Fails naming the field that is wrong.
    static Sam1Config from_json(const nlohmann::json& json, const std::string& path);
    nlohmann::json to_json() const;  // what from_json reads back to the same values
    // From the shapes of the weights (canonical names), for files without a configuration. What shapes do not tell is
    // as in Meta's releases.
    static Sam1Config from_weights(const Scope& root, const std::string& path);
    void validate(const std::string& path) const;
};

}  // namespace sam3
