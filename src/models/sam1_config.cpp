#include "models/sam1_config.h"

#include "models/json_section.h"
#include "util/error.h"

#include <algorithm>

namespace sam3 {

namespace {

constexpr int kMostLayers = 256;

template <typename Section>
void vision_fields(const Section& section, Sam1VisionConfig& vision) {
    section.number("image_size", vision.image_size);
    section.number("patch_size", vision.patch_size);
    section.number("hidden_size", vision.hidden_size);
    section.number("mlp_dim", vision.mlp_size);
    section.number("output_channels", vision.output_channels);
    section.number("num_hidden_layers", vision.layers);
    section.number("num_attention_heads", vision.heads);
    section.number("window_size", vision.window);
    section.list("global_attn_indexes", vision.global_layers);
    section.number("layer_norm_eps", vision.norm_eps);
    section.activation("hidden_act", vision.activation);
}

template <typename Section>
void prompt_fields(const Section& section, PromptEncoderConfig& prompt) {
    section.number("hidden_size", prompt.hidden_size);
    section.number("mask_input_channels", prompt.mask_channels);
    section.number("layer_norm_eps", prompt.norm_eps);
    section.activation("hidden_act", prompt.activation);
}

template <typename Section>
void decoder_fields(const Section& section, SamMaskDecoderConfig& decoder) {
    TwoWayConfig& transformer = decoder.transformer;
    section.number("hidden_size", transformer.hidden_size);
    section.number("mlp_dim", transformer.mlp_size);
    section.number("num_hidden_layers", transformer.layers);
    section.number("num_attention_heads", transformer.heads);
    section.number("attention_downsample_rate", transformer.downsample_rate);
    section.number("layer_norm_eps", transformer.norm_eps);
    section.number("num_multimask_outputs", decoder.multimask_outputs);
    section.number("iou_head_depth", decoder.iou_head_depth);
    section.number("iou_head_hidden_dim", decoder.iou_head_hidden);
}

template <typename Section>
void picture_fields(const Section& section, Sam1Config& config) {
    section.list("image_mean", config.image_mean);
    section.list("image_std", config.image_std);
}

void read_vision(const JsonSection& section, Sam1VisionConfig& vision, const std::string& path) {
    double mlp_ratio = 4.0;
    section.number("hidden_size", vision.hidden_size);
    section.number("mlp_ratio", mlp_ratio);
    vision.mlp_size = static_cast<int64_t>(static_cast<double>(vision.hidden_size) * mlp_ratio);
    vision_fields(section, vision);
    for (const char* key : {"use_abs_pos", "use_rel_pos", "qkv_bias"}) {
        bool used = true;
        section.flag(key, used);
        if (!used) fail(path, ": '", key, "' is false; only SAM 1 models with it are supported");
    }
}

void read_prompt(const JsonSection& section, PromptEncoderConfig& prompt, const std::string& path) {
    prompt_fields(section, prompt);
    int point_embeddings = 4;
    section.number("num_point_embeddings", point_embeddings);
    if (point_embeddings != 4) fail(path, ": 'num_point_embeddings' must be 4, found ", point_embeddings);
}

void read_decoder(const JsonSection& section, SamMaskDecoderConfig& decoder, const std::string& path) {
    decoder.transformer.norm_eps = 1e-6F;  // the default of transformers' configuration
    decoder_fields(section, decoder);
    Activation activation = Activation::relu;
    section.activation("hidden_act", activation);
    if (activation != Activation::relu) fail(path, ": the mask decoder's 'hidden_act' must be relu");
}

// Reads sizes off a file's tensors; fails with the name of a tensor that is missing or of another rank.
class ShapeReader {
public:
    ShapeReader(Scope root, const std::string& path) : root_(std::move(root)), path_(path) {}

    Shape get(const std::string& name, int rank) const {
        const std::optional<Shape> shape = root_.shape_of(name);
        if (!shape) fail(path_, ": '", name, "' is missing, so this is not a complete SAM 1 model");
        if (shape->rank() != rank)
            fail(path_, ": '", name, "' must have ", rank, " dimensions, found ", to_string(*shape));
        return *shape;
    }
    // How many of before + "0" + after, before + "1" + after, ... there are.
    int count(const std::string& before, const std::string& after) const {
        int n = 0;
        while (n <= kMostLayers && root_.has(before + std::to_string(n) + after)) ++n;
        return n;
    }

private:
    Scope root_;
    const std::string& path_;
};

// Relative positions tell the head size and, by their number, which layers see the whole image.
void infer_attention(const ShapeReader& shapes, Sam1VisionConfig& vision, const std::string& path) {
    vision.global_layers.clear();
    int64_t window = 0;
    int64_t head_size = 0;
    for (int i = 0; i < vision.layers; ++i) {
        const Shape table = shapes.get("vision_encoder.layers." + std::to_string(i) + ".attn.rel_pos_h", 2);
        const int64_t side = (table[0] + 1) / 2;
        head_size = table[1];
        if (side == vision.grid())
            vision.global_layers.push_back(i);
        else if (window != 0 && side != window)
            fail(path, ": layer ", i, " has windows of ", side, ", an earlier one of ", window);
        else
            window = side;
    }
    if (head_size < 1 || vision.hidden_size % head_size != 0)
        fail(path, ": relative positions of size ", head_size, " do not fit the width ", vision.hidden_size);
    vision.heads = static_cast<int>(std::min<int64_t>(vision.hidden_size / head_size, 1 << 20));
    vision.window = static_cast<int>(std::min<int64_t>(window == 0 ? vision.grid() : window, 1 << 20));
}

Sam1VisionConfig infer_vision(const ShapeReader& shapes, const std::string& path) {
    Sam1VisionConfig vision;
    const Shape patches = shapes.get("vision_encoder.patch_embed.projection.weight", 4);
    vision.hidden_size = patches[0];
    vision.patch_size = patches[3];
    const int64_t side = shapes.get("vision_encoder.pos_embed", 4)[1];
    if (vision.patch_size < 1 || vision.patch_size > 256 || side > 8192)
        fail(path, ": a grid of ", side, " patches of ", vision.patch_size, " pixels is not supported");
    vision.image_size = side * vision.patch_size;
    vision.layers = shapes.count("vision_encoder.layers.", ".attn.qkv.weight");
    if (vision.layers == 0) fail(path, ": the image encoder has no layers, so this is not a complete SAM 1 model");
    vision.mlp_size = shapes.get("vision_encoder.layers.0.mlp.fc1.weight", 2)[0];
    vision.output_channels = shapes.get("vision_encoder.neck.conv1.weight", 4)[0];
    infer_attention(shapes, vision, path);
    return vision;
}

void infer_decoder(const ShapeReader& shapes, SamMaskDecoderConfig& decoder, const std::string& path) {
    const Shape tokens = shapes.get("mask_decoder.mask_tokens.weight", 2);
    const Shape reduced = shapes.get("mask_decoder.transformer.final_attn_token_to_image.q_proj.weight", 2);
    if (reduced[0] < 1 || reduced[1] % reduced[0] != 0)
        fail(path, ": the mask decoder's attention has the odd shape ", to_string(reduced));
    decoder.transformer.hidden_size = tokens[1];
    decoder.transformer.downsample_rate = reduced[1] / reduced[0];
    decoder.transformer.layers = shapes.count("mask_decoder.transformer.layers.", ".self_attn.q_proj.weight");
    decoder.transformer.mlp_size = shapes.get("mask_decoder.transformer.layers.0.mlp.proj_in.weight", 2)[0];
    decoder.multimask_outputs = static_cast<int>(std::min<int64_t>(tokens[0], 1 << 20)) - 1;
    decoder.iou_head_depth = 2 + shapes.count("mask_decoder.iou_prediction_head.layers.", ".weight");
    decoder.iou_head_hidden = shapes.get("mask_decoder.iou_prediction_head.proj_in.weight", 2)[0];
}

}  // namespace

bool Sam1VisionConfig::is_global(int layer) const {
    return std::find(global_layers.begin(), global_layers.end(), layer) != global_layers.end();
}

Sam1Config Sam1Config::from_json(const Json& json, const std::string& path) {
    const JsonSection root(json, "", path);
    if (root.text("model_type") != "sam")
        fail(path, ": expected model_type 'sam', found '", root.text("model_type"), "'");
    Sam1Config config;
    read_vision(root.child("vision_config"), config.vision, path);
    read_prompt(root.child("prompt_encoder_config"), config.prompt, path);
    read_decoder(root.child("mask_decoder_config"), config.decoder, path);
    picture_fields(root, config);
    config.validate(path);
    return config;
}

Json Sam1Config::to_json() const {
    Sam1Config copy = *this;  // the lists of fields serve reading as well
    Json json;
    const JsonWriter root(json);
    json["model_type"] = "sam";
    picture_fields(root, copy);
    vision_fields(root.child("vision_config"), copy.vision);
    prompt_fields(root.child("prompt_encoder_config"), copy.prompt);
    decoder_fields(root.child("mask_decoder_config"), copy.decoder);
    return json;
}

Sam1Config Sam1Config::from_weights(const Scope& root, const std::string& path) {
    const ShapeReader shapes(root, path);
    Sam1Config config;
    config.vision = infer_vision(shapes, path);
    config.prompt.hidden_size = shapes.get("prompt_encoder.no_mask_embed.weight", 2)[1];
    config.prompt.mask_channels = shapes.get("prompt_encoder.mask_embed.conv2.weight", 4)[0];
    infer_decoder(shapes, config.decoder, path);
    config.validate(path);
    return config;
}

void Sam1Config::validate(const std::string& path) const {
    const auto require = [&](bool good, const char* what, double found) {
        if (!good) fail(path, ": ", what, ", found ", found);
    };
    const auto size = [&](const char* what, int64_t value, int64_t most) {
        require(value >= 1 && value <= most, what, static_cast<double>(value));
    };
    const auto epsilon = [&](const char* what, float value) {
        require(value > 0 && value < 1, what, static_cast<double>(value));
    };
    require(image_mean.size() == 3 && image_std.size() == 3, "image_mean and image_std must have 3 values",
            static_cast<double>(image_std.size()));
    for (const float deviation : image_std)
        require(deviation > 0, "image_std must be positive", static_cast<double>(deviation));
    size("the image encoder's hidden_size must be 1 to 16384", vision.hidden_size, 16384);
    size("the image encoder's mlp_dim must be 1 to 65536", vision.mlp_size, 65536);
    size("the image encoder must have 1 to 256 layers", vision.layers, kMostLayers);
    size("the image encoder must have 1 to 256 heads", vision.heads, 256);
    size("the patch size must be 1 to 256", vision.patch_size, 256);
    size("the image size must be 1 to 8192", vision.image_size, 8192);
    size("the window must be 1 to 512", vision.window, 512);
    size("output_channels must be 1 to 8192", vision.output_channels, 8192);
    require(vision.hidden_size % vision.heads == 0, "the image encoder's width must be a multiple of its heads",
            static_cast<double>(vision.hidden_size));
    require(vision.image_size % vision.patch_size == 0, "the image size must be a multiple of the patch size",
            static_cast<double>(vision.image_size));
    epsilon("the image encoder's layer_norm_eps must be between 0 and 1", vision.norm_eps);

    require(prompt.hidden_size == vision.output_channels, "the prompt encoder must be as wide as output_channels",
            static_cast<double>(prompt.hidden_size));
    size("mask_input_channels must be 4 to 1024", prompt.mask_channels / 4, 256);
    require(prompt.mask_channels % 4 == 0, "mask_input_channels must be a multiple of 4",
            static_cast<double>(prompt.mask_channels));
    epsilon("the prompt encoder's layer_norm_eps must be between 0 and 1", prompt.norm_eps);

    const TwoWayConfig& transformer = decoder.transformer;
    const int64_t width = transformer.hidden_size;
    require(width == vision.output_channels && width % 8 == 0,
            "the mask decoder must be as wide as output_channels and a multiple of 8", static_cast<double>(width));
    size("the mask decoder's mlp_dim must be 1 to 65536", transformer.mlp_size, 65536);
    size("the mask decoder must have 1 to 64 layers", transformer.layers, 64);
    size("the mask decoder must have 1 to 256 heads", transformer.heads, 256);
    size("attention_downsample_rate must be 1 to 64", transformer.downsample_rate, 64);
    require(width % (transformer.downsample_rate * transformer.heads) == 0,
            "the mask decoder's width must be a multiple of heads times attention_downsample_rate",
            static_cast<double>(width));
    epsilon("the mask decoder's layer_norm_eps must be between 0 and 1", transformer.norm_eps);
    size("num_multimask_outputs must be 1 to 64", decoder.multimask_outputs, 64);
    require(decoder.iou_head_depth >= 2 && decoder.iou_head_depth <= 16, "iou_head_depth must be 2 to 16",
            decoder.iou_head_depth);
    size("iou_head_hidden_dim must be 1 to 65536", decoder.iou_head_hidden, 65536);
}

}  // namespace sam3
