#pragma once

#include "models/memory_config.h"
#include "models/prompt_encoder.h"
#include "models/sam_mask_decoder.h"
#include "runtime/kernels.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <vector>

// Every size of a SAM 3 network, as its file states them. Defaults are those of Meta's released checkpoint.
namespace sam3 {

struct VitConfig {
    int64_t image_size = 1008;          // pixels, square
    int64_t pretrain_image_size = 336;  // grid of the stored position embedding
    int64_t patch_size = 14;
    int64_t hidden_size = 1024;
    int64_t mlp_size = 4736;
    int layers = 32;
    int heads = 16;
    int window = 24;
    std::vector<int> global_layers = {7, 15, 23, 31};
    float rope_theta = 10000.0F;
    float norm_eps = 1e-6F;
    Activation activation = Activation::gelu;

    int64_t grid(int64_t pixels) const { return pixels / patch_size; }
    bool is_global(int layer) const;
};

struct NeckConfig {
    int64_t hidden_size = 256;
    std::vector<float> scale_factors = {4.0F, 2.0F, 1.0F, 0.5F};
};

struct TextConfig {
    int64_t vocabulary = 49408;
    int64_t context = 32;
    int64_t hidden_size = 1024;
    int64_t mlp_size = 4096;
    int layers = 24;
    int heads = 16;
    int bos_token = 49406;
    int eos_token = 49407;
    float norm_eps = 1e-5F;
    Activation activation = Activation::gelu;
};

// A stack of transformer layers with one width: geometry encoder, fusion encoder, DETR decoder.
struct StackConfig {
    int64_t hidden_size = 256;
    int64_t mlp_size = 2048;
    int layers = 6;
    int heads = 8;
    Activation activation = Activation::relu;
};

// The interactive head and, in video, the tracker around it.
struct TrackerConfig {
    PromptEncoderConfig prompt;
    SamMaskDecoderConfig decoder;
    // A single mask whose outline moves too much between the logits -delta and +delta gives way to the best candidate.
    bool dynamic_multimask = true;
    float stability_delta = 0.05F;
    float stability_threshold = 0.98F;
    MemoryConfig memory;
};

// Where the two reference implementations differ; part of a model's metadata (docs/parity.md).
struct Behaviour {
    std::string name = "official";
    bool cls_on_text_only = true;              // the geometry encoder's CLS token joins text-only prompts
    bool sigmoid_before_upsampling = false;    // order of the two on mask logits
    bool mask_padding_in_text = false;         // padding tokens are invisible inside the text encoder
    bool pad_with_eos = false;                 // else with token 0
    bool clamp_presence = false;               // presence logit limited to +-10
    bool no_memory_on_images = true;           // clicks on single images add the "no memory" embedding
    bool all_conditioning_pointers = false;    // else pointers only of the conditioning frames that attention sees
    bool corrections_are_conditioning = true;  // a click on a tracked frame makes it a conditioning frame
    bool binarize_together = false;            // one object's click rounds the memory masks of all objects of the frame
    bool select_memories = true;               // frames with a poor mask are passed over when memories are chosen
    bool retrack_with_new_objects = false;     // a detection that becomes an object has all others followed once more
    bool shift_on_removal = false;  // a removed object's place passes to the next (engine/concept_heuristics.h)
    float vit_norm_eps = 1e-5F;
    float threshold = 0.5F;

    static Behaviour official();
    static Behaviour hugging_face();
    static Behaviour by_name(const std::string& name);  // fails with the known names
};

struct Sam3Config {
    VitConfig vit;
    NeckConfig neck;
    TextConfig text;
    StackConfig geometry{.layers = 3};
    int roi_size = 7;
    StackConfig fusion;
    StackConfig decoder;
    int64_t queries = 200;
    int mask_heads = 8;
    int mask_upsampling_stages = 3;
    bool has_detector = true;
    bool has_tracker = true;
    bool has_memory = true;
    TrackerConfig tracker;
    Behaviour behaviour;
    std::vector<float> image_mean = {0.5F, 0.5F, 0.5F};
    std::vector<float> image_std = {0.5F, 0.5F, 0.5F};

    // From the fields of a Hugging Face config.json: model_type sam3_video or sam3. Fails naming the field that is
    // wrong; `path` is for the message.
    static Sam3Config from_json(const nlohmann::json& json, const std::string& path);
    nlohmann::json to_json() const;  // what from_json reads back to the same values
    void validate(const std::string& path) const;
};

}  // namespace sam3
