#include "models/sam3_config.h"

#include "models/json_section.h"
#include "util/error.h"

#include <algorithm>
#include <limits>

namespace sam3 {

namespace {

template <typename Section>
void vit_fields(const Section& section, VitConfig& vit) {
    section.number("image_size", vit.image_size);
    section.number("pretrain_image_size", vit.pretrain_image_size);
    section.number("patch_size", vit.patch_size);
    section.number("hidden_size", vit.hidden_size);
    section.number("intermediate_size", vit.mlp_size);
    section.number("num_hidden_layers", vit.layers);
    section.number("num_attention_heads", vit.heads);
    section.number("window_size", vit.window);
    section.list("global_attn_indexes", vit.global_layers);
    section.number("layer_norm_eps", vit.norm_eps);
    section.number("rope_theta", vit.rope_theta);
    section.activation("hidden_act", vit.activation);
}

template <typename Section>
void text_fields(const Section& section, TextConfig& text) {
    section.number("vocab_size", text.vocabulary);
    section.number("max_position_embeddings", text.context);
    section.number("hidden_size", text.hidden_size);
    section.number("intermediate_size", text.mlp_size);
    section.number("num_hidden_layers", text.layers);
    section.number("num_attention_heads", text.heads);
    section.number("bos_token_id", text.bos_token);
    section.number("eos_token_id", text.eos_token);
    section.number("layer_norm_eps", text.norm_eps);
    section.activation("hidden_act", text.activation);
}

template <typename Section>
void stack_fields(const Section& section, StackConfig& stack) {
    section.number("hidden_size", stack.hidden_size);
    section.number("intermediate_size", stack.mlp_size);
    section.number("num_layers", stack.layers);
    section.number("num_attention_heads", stack.heads);
    section.activation("hidden_act", stack.activation);
}

template <typename Section>
void memory_fields(const Section& section, MemoryConfig& memory) {
    section.number("num_maskmem", memory.frames);
    section.number("memory_encoder_output_channels", memory.channels);
    section.number("max_object_pointers_in_encoder", memory.pointers);
    section.number("max_cond_frame_num", memory.conditioning_frames);
    section.flag("enable_temporal_pos_encoding_for_object_pointers", memory.pointer_positions);
    section.flag("enable_occlusion_spatial_embedding", memory.occlusion_embedding);
    section.number("memory_attention_num_layers", memory.layers);
    section.number("memory_attention_num_attention_heads", memory.heads);
    section.number("memory_attention_downsample_rate", memory.downsample_rate);
    section.number("memory_attention_feed_forward_hidden_size", memory.mlp_size);
    section.number("memory_attention_rope_theta", memory.rope_theta);
    section.activation("memory_attention_feed_forward_hidden_act", memory.activation);
    section.number("sigmoid_scale_for_mem_enc", memory.mask_scale);
    section.number("sigmoid_bias_for_mem_enc", memory.mask_bias);
    section.number("mask_downsampler_stride", memory.downsampler_stride);
    section.number("mask_downsampler_total_stride", memory.downsampler_total_stride);
    section.number("mask_downsampler_kernel_size", memory.downsampler_kernel);
    section.number("mask_downsampler_padding", memory.downsampler_padding);
    section.activation("mask_downsampler_hidden_act", memory.downsampler_activation);
    section.number("memory_fuser_num_layers", memory.fuser_layers);
    section.number("memory_fuser_intermediate_dim", memory.fuser_mlp_size);
    section.number("memory_fuser_kernel_size", memory.fuser_kernel);
    section.number("memory_fuser_padding", memory.fuser_padding);
    section.activation("memory_fuser_hidden_act", memory.fuser_activation);
    section.flag("multimask_output_in_sam", memory.multimask);
    section.flag("multimask_output_for_tracking", memory.multimask_when_tracking);
    section.number("multimask_min_pt_num", memory.multimask_min_points);
    section.number("multimask_max_pt_num", memory.multimask_max_points);
}

template <typename Section>
void tracker_fields(const Section& section, TrackerConfig& tracker) {
    const Section prompt = section.child("prompt_encoder_config");
    prompt.number("hidden_size", tracker.prompt.hidden_size);
    prompt.number("mask_input_channels", tracker.prompt.mask_channels);
    prompt.number("layer_norm_eps", tracker.prompt.norm_eps);
    prompt.activation("hidden_act", tracker.prompt.activation);
    const Section decoder = section.child("mask_decoder_config");
    TwoWayConfig& transformer = tracker.decoder.transformer;
    decoder.number("hidden_size", transformer.hidden_size);
    decoder.number("mlp_dim", transformer.mlp_size);
    decoder.number("num_hidden_layers", transformer.layers);
    decoder.number("num_attention_heads", transformer.heads);
    decoder.number("attention_downsample_rate", transformer.downsample_rate);
    decoder.number("num_multimask_outputs", tracker.decoder.multimask_outputs);
    decoder.number("iou_head_depth", tracker.decoder.iou_head_depth);
    decoder.number("iou_head_hidden_dim", tracker.decoder.iou_head_hidden);
    decoder.flag("dynamic_multimask_via_stability", tracker.dynamic_multimask);
    decoder.number("dynamic_multimask_stability_delta", tracker.stability_delta);
    decoder.number("dynamic_multimask_stability_thresh", tracker.stability_threshold);
    memory_fields(section, tracker.memory);
}

template <typename Section>
void detector_fields(const Section& section, Sam3Config& config) {
    const Section vision = section.child("vision_config");
    vit_fields(vision.child("backbone_config"), config.vit);
    vision.number("fpn_hidden_size", config.neck.hidden_size);
    vision.list("scale_factors", config.neck.scale_factors);
    text_fields(section.child("text_config"), config.text);
    const Section geometry = section.child("geometry_encoder_config");
    stack_fields(geometry, config.geometry);
    geometry.number("roi_size", config.roi_size);
    stack_fields(section.child("detr_encoder_config"), config.fusion);
    const Section decoder = section.child("detr_decoder_config");
    stack_fields(decoder, config.decoder);
    decoder.number("num_queries", config.queries);
    const Section mask = section.child("mask_decoder_config");
    mask.number("num_attention_heads", config.mask_heads);
    mask.number("num_upsampling_stages", config.mask_upsampling_stages);
}

// Hugging Face keeps these in the processor's file, not in config.json.
template <typename Section>
void picture_fields(const Section& section, Sam3Config& config) {
    section.list("image_mean", config.image_mean);
    section.list("image_std", config.image_std);
}

}  // namespace

bool VitConfig::is_global(int layer) const {
    return std::find(global_layers.begin(), global_layers.end(), layer) != global_layers.end();
}

Behaviour Behaviour::official() { return {}; }

Behaviour Behaviour::hugging_face() {
    return {.name = "hf",
            .cls_on_text_only = false,
            .sigmoid_before_upsampling = true,
            .mask_padding_in_text = true,
            .pad_with_eos = true,
            .clamp_presence = true,
            .no_memory_on_images = false,
            .all_conditioning_pointers = true,
            .corrections_are_conditioning = false,
            .binarize_together = true,
            .select_memories = false,
            .retrack_with_new_objects = true,
            .shift_on_removal = true,
            .vit_norm_eps = 1e-6F,
            .threshold = 0.3F};
}

Behaviour Behaviour::by_name(const std::string& name) {
    if (name == "official") return official();
    if (name == "hf") return hugging_face();
    fail("unknown behaviour '", name, "': use 'official' or 'hf'");
}

Sam3Config Sam3Config::from_json(const Json& json, const std::string& path) {
    const JsonSection root(json, "", path);
    const std::string type = root.text("model_type");
    if (type != "sam3_video" && type != "sam3")
        fail(path, ": expected model_type 'sam3_video' or 'sam3', found '", type, "'");
    const JsonSection detector = type == "sam3_video" ? root.child("detector_config") : root;

    Sam3Config config;
    detector_fields(detector, config);
    const JsonSection backbone = detector.child("vision_config").child("backbone_config");
    if (backbone.has("rope_parameters")) backbone.child("rope_parameters").number("rope_theta", config.vit.rope_theta);
    config.has_tracker = root.has("tracker_config");
    if (config.has_tracker) tracker_fields(root.child("tracker_config"), config.tracker);
    picture_fields(root, config);
    // A file may say whose behaviour its weights were trained for; Hugging Face's own files do not.
    if (root.has("sam3_behaviour")) config.behaviour = Behaviour::by_name(root.text("sam3_behaviour"));
    config.validate(path);
    return config;
}

Json Sam3Config::to_json() const {
    Sam3Config copy = *this;  // the lists of fields serve reading as well
    Json json;
    const JsonWriter root(json);
    json["model_type"] = "sam3_video";
    json["sam3_behaviour"] = behaviour.name;
    picture_fields(root, copy);
    detector_fields(root.child("detector_config"), copy);
    if (has_tracker) tracker_fields(root.child("tracker_config"), copy.tracker);
    return json;
}

void Sam3Config::validate(const std::string& path) const {
    const auto require = [&](bool good, const char* what, double found) {
        if (!good) fail(path, ": ", what, ", found ", found);
    };
    const auto size = [&](const char* what, int64_t value, int64_t most) {
        require(value >= 1 && value <= most, what, static_cast<double>(value));
    };
    size("the ViT's hidden_size must be 1 to 16384", vit.hidden_size, 16384);
    size("the ViT's intermediate_size must be 1 to 65536", vit.mlp_size, 65536);
    size("the ViT must have 1 to 256 layers", vit.layers, 256);
    size("the ViT must have 1 to 256 heads", vit.heads, 256);
    size("the patch size must be 1 to 256", vit.patch_size, 256);
    size("the image size must be 1 to 8192", vit.image_size, 8192);
    size("the window must be 1 to 512", vit.window, 512);
    size("the pretraining image size must be 1 to 8192", vit.pretrain_image_size, 8192);
    require(vit.hidden_size % (4 * vit.heads) == 0, "the ViT's head size must be a multiple of 4",
            static_cast<double>(vit.hidden_size) / vit.heads);
    require(vit.image_size % vit.patch_size == 0, "the image size must be a multiple of the patch size",
            static_cast<double>(vit.image_size));
    require(image_mean.size() == 3 && image_std.size() == 3, "image_mean and image_std must have 3 values",
            static_cast<double>(image_std.size()));
    for (const float deviation : image_std)
        require(deviation > 0, "image_std must be positive", static_cast<double>(deviation));
    size("the neck's width must be 2 to 8192", neck.hidden_size, 8192);
    require(neck.scale_factors.size() >= 3, "the neck needs at least three scale factors",
            static_cast<double>(neck.scale_factors.size()));
    for (const float factor : neck.scale_factors)
        require(factor == 4.0F || factor == 2.0F || factor == 1.0F || factor == 0.5F,
                "scale factors must be 4, 2, 1 or 0.5", static_cast<double>(factor));
    size("the text vocabulary must be 2 to 1000000", text.vocabulary, 1000000);
    size("the text context must be 2 to 4096", text.context, 4096);
    size("the text width must be 1 to 16384", text.hidden_size, 16384);
    size("the text encoder's intermediate_size must be 1 to 65536", text.mlp_size, 65536);
    size("the text encoder must have 1 to 256 layers", text.layers, 256);
    size("the text encoder must have 1 to 256 heads", text.heads, 256);
    require(text.hidden_size % text.heads == 0, "the text width must be a multiple of its heads",
            static_cast<double>(text.hidden_size));
    for (const StackConfig* stack : {&geometry, &fusion, &decoder}) {
        require(stack->hidden_size == neck.hidden_size, "all detector parts must have the neck's width",
                static_cast<double>(stack->hidden_size));
        size("a detector part must have 1 to 64 layers", stack->layers, 64);
        size("a detector part's intermediate_size must be 1 to 65536", stack->mlp_size, 65536);
        size("a detector part must have 1 to 256 heads", stack->heads, 256);
        require(stack->hidden_size % stack->heads == 0, "a detector part's width must be a multiple of its heads",
                static_cast<double>(stack->heads));
    }
    size("roi_size must be 1 to 64", roi_size, 64);
    size("there must be 1 to 10000 queries", queries, 10000);
    size("the mask head must have 1 to 256 heads", mask_heads, 256);
    require(neck.hidden_size % mask_heads == 0 && neck.hidden_size % 8 == 0,
            "the mask head's width must be a multiple of 8 and of its heads", static_cast<double>(neck.hidden_size));
    size("the mask head must have 2 to 8 upsampling stages", mask_upsampling_stages, 8);
    if (!has_tracker) return;
    const TwoWayConfig& two_way = tracker.decoder.transformer;
    require(tracker.prompt.hidden_size == neck.hidden_size && two_way.hidden_size == neck.hidden_size,
            "the interactive head must have the neck's width", static_cast<double>(two_way.hidden_size));
    size("the interactive head's mask channels must be 4 to 1024", tracker.prompt.mask_channels / 4, 256);
    size("the interactive head must have 1 to 64 layers", two_way.layers, 64);
    size("the interactive head's mlp_dim must be 1 to 65536", two_way.mlp_size, 65536);
    size("the interactive head must have 1 to 256 heads", two_way.heads, 256);
    size("attention_downsample_rate must be 1 to 64", two_way.downsample_rate, 64);
    require(two_way.hidden_size % (two_way.downsample_rate * two_way.heads) == 0 && two_way.hidden_size % 8 == 0,
            "the interactive head's width must be a multiple of 8 and of its heads",
            static_cast<double>(two_way.hidden_size));
    size("there must be 1 to 16 mask candidates", tracker.decoder.multimask_outputs, 16);
    size("iou_head_depth must be 2 to 16", tracker.decoder.iou_head_depth - 1, 15);
    size("iou_head_hidden_dim must be 1 to 16384", tracker.decoder.iou_head_hidden, 16384);
    const MemoryConfig& memory = tracker.memory;
    size("num_maskmem must be 1 to 64", memory.frames, 64);
    size("memory_encoder_output_channels must be 1 to 4096", memory.channels, 4096);
    size("max_object_pointers_in_encoder must be 2 to 1024", memory.pointers - 1, 1023);
    require(memory.conditioning_frames == -1 || (memory.conditioning_frames >= 1 && memory.conditioning_frames <= 64),
            "max_cond_frame_num must be -1 or 1 to 64", memory.conditioning_frames);
    size("the memory attention must have 1 to 64 layers", memory.layers, 64);
    size("the memory attention must have 1 to 256 heads", memory.heads, 256);
    size("memory_attention_downsample_rate must be 1 to 64", memory.downsample_rate, 64);
    require(neck.hidden_size % (4 * memory.heads * memory.downsample_rate) == 0,
            "the memory attention's head size must be a multiple of 4", static_cast<double>(neck.hidden_size));
    size("the memory attention's feed-forward size must be 1 to 65536", memory.mlp_size, 65536);
    size("mask_downsampler_stride must be 2 to 16", memory.downsampler_stride - 1, 15);
    size("mask_downsampler_total_stride must be 2 to 64", memory.downsampler_total_stride - 1, 63);
    size("mask_downsampler_kernel_size must be 1 to 31", memory.downsampler_kernel, 31);
    size("memory_fuser_kernel_size must be 1 to 31", memory.fuser_kernel, 31);
    require(
        memory.downsampler_padding == memory.downsampler_kernel / 2 && memory.fuser_padding == memory.fuser_kernel / 2,
        "the memory encoder's paddings must be half its kernels", memory.fuser_padding);
    size("the memory fuser must have 1 to 64 layers", memory.fuser_layers, 64);
    size("memory_fuser_intermediate_dim must be 1 to 65536", memory.fuser_mlp_size, 65536);
}

}  // namespace sam3
