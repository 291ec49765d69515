#include "models/configuration.h"
#include "models/sam1.h"
#include "tests/support/goldens.h"
#include "tests/support/tensors.h"
#include "tests/weights/files.h"
#include "weights/name_maps_sam1.h"
#include "weights/safetensors.h"

#include <nlohmann/json.hpp>

#include <map>

namespace sam3::test {
namespace {

using Json = nlohmann::json;

struct NamedShape {
    std::string hugging_face;
    std::string official;  // empty: not in Meta's files
    Shape shape;
};

// Every tensor of the published ViT-B.
std::vector<NamedShape> vit_b_tensors() {
    std::ifstream file(data_path("models/sam1-names.json"));
    std::vector<NamedShape> tensors;
    for (const Json& row : Json::parse(file)) {
        Shape shape;
        for (const Json& size : row.at(2)) shape.push_back(size.get<int64_t>());
        tensors.push_back({row.at(0), row.at(1).is_null() ? "" : row.at(1).get<std::string>(), shape});
    }
    return tensors;
}

// A file with the names and shapes of a model and no values: all tensors share a block of zeros.
std::shared_ptr<const WeightFile> file_of(const std::vector<NamedShape>& tensors, bool official) {
    static const std::vector<uint8_t> zeros(size_t{16} << 20);
    WeightFileContents contents;
    contents.format = "safetensors";
    contents.path = official ? "sam_vit_b.safetensors" : "model.safetensors";
    for (const NamedShape& tensor : tensors) {
        const std::string& name = official ? tensor.official : tensor.hugging_face;
        const auto bytes = static_cast<size_t>(tensor.shape.numel()) * sizeof(float);
        EXPECT_LE(bytes, zeros.size());
        if (!name.empty())
            contents.tensors.push_back({name, WeightType::f32, tensor.shape, zeros.data(), bytes, "F32"});
    }
    return std::make_shared<WeightFile>(std::move(contents));
}

// Takes weights without looking at them, so that a model of full size loads at once.
class WeightlessDevice final : public Device {
public:
    std::string name() const override { return "none"; }
    bool is_host() const override { return true; }
    const KernelTable& kernels() const override { return cpu().kernels(); }
    std::shared_ptr<Buffer> allocate(size_t bytes) override { return cpu().allocate(bytes); }
    MemoryStats memory() const override { return {}; }
    void reset_peak() override {}
    void trim() override {}
    void copy_from_host(void* destination, const void* source, size_t bytes) override {
        std::memcpy(destination, source, bytes);
    }
    void copy_to_host(void* destination, const void* source, size_t bytes) override {
        std::memcpy(destination, source, bytes);
    }
    void synchronize() override {}
    std::shared_ptr<const PackedLinear> pack_linear(const LinearSource&, Precision) override {
        return std::make_shared<PackedLinear>();
    }
    std::shared_ptr<const PackedConv2d> pack_conv2d(const Conv2dSource&, Precision) override {
        return std::make_shared<PackedConv2d>();
    }
};

Sam1Config load_without_weights(const std::shared_ptr<const WeightFile>& file) {
    WeightlessDevice device;
    WeightLoader loader(file, sam1_name_map(*file));
    const Sam1Config config = Sam1Config::from_weights(loader.root(), file->path());
    const Sam1 model(nn::LoadContext{device}, loader.root(), config);
    loader.finish("SAM 1", sam1_unused_weights());
    return config;
}

TEST(Sam1Names, EveryTensorOfThePublishedModelIsFoundAndUsedInBothStyles) {
    const std::vector<NamedShape> tensors = vit_b_tensors();
    ASSERT_EQ(tensors.size(), 315U);
    for (const bool official : {false, true}) {
        const auto file = file_of(tensors, official);
        EXPECT_EQ(&sam1_name_map(*file), official ? &sam1_official_names() : &sam1_hf_names());
        const Sam1Config config = load_without_weights(file);
        EXPECT_EQ(config.vision.layers, 12);
    }
}

TEST(Sam1Names, EveryTensorIsNeeded) {
    const std::vector<NamedShape> tensors = vit_b_tensors();
    for (size_t i = 0; i < tensors.size(); i += 7) {
        if (tensors[i].official.empty()) continue;
        std::vector<NamedShape> fewer = tensors;
        fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(i));
        EXPECT_THROW(load_without_weights(file_of(fewer, true)), Error) << tensors[i].official;
    }
}

TEST(Sam1Names, UnknownTensorsAreLeftOver) {
    std::vector<NamedShape> tensors = vit_b_tensors();
    tensors.push_back({"extra.weight", "extra.weight", Shape{3}});
    for (const bool official : {false, true})
        expect_contains(error_of([&] { load_without_weights(file_of(tensors, official)); }), "extra.weight");
}

TEST(Sam1Names, TheTiedPositionMatrixMayBeStoredOnceOrTwice) {
    std::vector<NamedShape> tensors = vit_b_tensors();
    const auto drop = [&](const std::string& name) {
        std::vector<NamedShape> fewer;
        for (const NamedShape& tensor : tensors)
            if (tensor.hugging_face != name) fewer.push_back(tensor);
        EXPECT_EQ(fewer.size() + 1, tensors.size());
        return fewer;
    };
    load_without_weights(file_of(tensors, false));
    load_without_weights(file_of(drop("shared_image_embedding.positional_embedding"), false));
    load_without_weights(file_of(drop("prompt_encoder.shared_embedding.positional_embedding"), false));
}

TEST(Sam1Names, OtherModelsAreRefusedWithTheNameThatWasFound) {
    const auto file = file_of({{"vision_encoder.backbone.layer_norm.weight", "", Shape{4}}}, false);
    EXPECT_FALSE(is_sam1(*file));
    expect_contains(error_of([&] { sam1_name_map(*file); }), "vision_encoder.backbone.layer_norm.weight");
}

// The same model under Meta's names. `shift` bytes before the data take every tensor off its natural alignment.
std::string write_official(const TemporaryFolder& folder, const std::string& source, size_t shift) {
    const Bytes bytes = read_bytes(source);
    uint64_t header_size = 0;
    std::memcpy(&header_size, bytes.data(), sizeof header_size);
    const auto data = bytes.begin() + static_cast<ptrdiff_t>(8 + header_size);
    const Json header = Json::parse(bytes.begin() + 8, data);
    std::map<std::string, std::string> official;
    for (const NamedShape& tensor : vit_b_tensors()) official[tensor.hugging_face] = tensor.official;
    Json renamed;
    for (const auto& [name, entry] : header.items())
        if (name != "__metadata__") renamed[official.at(name)] = entry;
    std::string text = renamed.dump();
    while ((8 + text.size()) % 8 != shift) text += ' ';
    const uint64_t text_size = text.size();
    const std::string size(reinterpret_cast<const char*>(&text_size), sizeof text_size);
    return folder.write("official.safetensors", size + text + std::string(data, bytes.end()));
}

Tensor first_mask(const std::shared_ptr<const WeightFile>& file, const Sam1Config& config) {
    WeightLoader loader(file, sam1_name_map(*file));
    const Sam1 model(nn::LoadContext{cpu()}, loader.root(), config);
    loader.finish("SAM 1", sam1_unused_weights());
    Ops ops(cpu(), 1);
    const int64_t size = config.vision.image_size;
    const Tensor embedding = model.encode(ops, random_tensor({1, size, size, 3}, 5));
    const InteractivePrompt prompt{{.points = {{20, 30, true}}, .box = {}}, {}};
    return model.interactive_head()->decode(ops, {embedding, {}, {}}, {prompt}, size).masks;
}

TEST(Sam1Names, OfficialNamesAndUnalignedDataGiveTheSameMasks) {
    const TemporaryFolder folder;
    const std::string path = data_path("models/sam1-b");
    const auto original = open_weight_file(path);
    const Sam1Config config = Sam1Config::from_json(configuration_of(*original)->json, path + "/config.json");
    const Tensor expected = first_mask(original, config);
    for (const size_t shift : {size_t{0}, size_t{1}, size_t{3}}) {
        const auto file = open_weight_file(write_official(folder, path + "/model.safetensors", shift));
        ASSERT_EQ(&sam1_name_map(*file), &sam1_official_names());
        ASSERT_EQ(reinterpret_cast<uintptr_t>(file->tensors().front().data) % 2, shift % 2);
        expect_equal(first_mask(file, config), expected);
    }
}

TEST(Sam1Config, ShapesTellTheSizesOfThePublishedModel) {
    const Sam1Config config = load_without_weights(file_of(vit_b_tensors(), true));
    const Sam1VisionConfig& vision = config.vision;
    EXPECT_EQ(vision.image_size, 1024);
    EXPECT_EQ(vision.patch_size, 16);
    EXPECT_EQ(vision.hidden_size, 768);
    EXPECT_EQ(vision.mlp_size, 3072);
    EXPECT_EQ(vision.output_channels, 256);
    EXPECT_EQ(vision.layers, 12);
    EXPECT_EQ(vision.heads, 12);
    EXPECT_EQ(vision.window, 14);
    EXPECT_EQ(vision.global_layers, (std::vector<int>{2, 5, 8, 11}));
    EXPECT_EQ(config.prompt.mask_channels, 16);
    EXPECT_FALSE(config.prompt.box_padding_point);
    EXPECT_EQ(config.decoder.transformer.hidden_size, 256);
    EXPECT_EQ(config.decoder.transformer.mlp_size, 2048);
    EXPECT_EQ(config.decoder.transformer.layers, 2);
    EXPECT_EQ(config.decoder.transformer.heads, 8);
    EXPECT_EQ(config.decoder.transformer.downsample_rate, 2);
    EXPECT_FLOAT_EQ(config.decoder.transformer.norm_eps, 1e-5F);  // Meta's; transformers have 1e-6
    EXPECT_EQ(config.decoder.multimask_outputs, 3);
    EXPECT_EQ(config.decoder.iou_head_depth, 3);
    EXPECT_EQ(config.decoder.iou_head_hidden, 256);
}

TEST(Sam1Config, ShapesAndConfigurationAgree) {
    for (const std::string name : {"sam1-b", "sam1-l", "sam1-h"}) {
        const auto file = open_weight_file(data_path("models/" + name));
        const Sam1Config said = Sam1Config::from_json(configuration_of(*file)->json, *file->side_path("config.json"));
        WeightLoader loader(file, sam1_name_map(*file));
        const Sam1Config seen = Sam1Config::from_weights(loader.root(), name);
        EXPECT_EQ(seen.vision.global_layers, said.vision.global_layers);
        EXPECT_EQ(seen.vision.heads, said.vision.heads);
        EXPECT_EQ(seen.vision.window, said.vision.window);
        EXPECT_EQ(seen.vision.mlp_size, said.vision.mlp_size);
        EXPECT_EQ(seen.vision.image_size, said.vision.image_size);
        EXPECT_EQ(seen.decoder.transformer.mlp_size, said.decoder.transformer.mlp_size);
    }
}

Json valid_configuration() {
    return {{"model_type", "sam"},
            {"vision_config",
             {{"hidden_size", 1280},
              {"num_hidden_layers", 32},
              {"num_attention_heads", 16},
              {"global_attn_indexes", {7, 15, 23, 31}},
              {"mlp_dim", nullptr}}},
            {"prompt_encoder_config", Json::object()},
            {"mask_decoder_config", Json::object()}};
}

TEST(Sam1Config, ReadsTheHugeModelsConfiguration) {
    const Sam1Config config = Sam1Config::from_json(valid_configuration(), "config.json");
    EXPECT_EQ(config.vision.head_size(), 80);
    EXPECT_EQ(config.vision.mlp_size, 5120);
    EXPECT_TRUE(config.vision.is_global(31));
    EXPECT_FALSE(config.vision.is_global(30));
    EXPECT_FLOAT_EQ(config.decoder.transformer.norm_eps, 1e-6F);
}

TEST(Sam1Config, WrongFieldsAreNamed) {
    const auto error_with = [](const char* section, const char* key, const Json& value) {
        Json json = valid_configuration();
        json[section][key] = value;
        return error_of([&] { Sam1Config::from_json(json, "folder/config.json"); });
    };
    expect_contains(error_with("vision_config", "hidden_size", "wide"), "'vision_config.hidden_size' must be a number");
    expect_contains(error_with("vision_config", "num_attention_heads", 0), "folder/config.json");
    expect_contains(error_with("vision_config", "num_attention_heads", 7), "multiple of its heads");
    expect_contains(error_with("vision_config", "image_size", 1000), "multiple of the patch size");
    expect_contains(error_with("vision_config", "image_size", 1e300), "out of range");
    expect_contains(error_with("vision_config", "use_rel_pos", false), "use_rel_pos");
    expect_contains(error_with("vision_config", "use_rel_pos", 1), "true or false");
    expect_contains(error_with("vision_config", "global_attn_indexes", {1, "two"}), "global_attn_indexes");
    expect_contains(error_with("vision_config", "layer_norm_eps", -1), "layer_norm_eps");
    expect_contains(error_with("vision_config", "mlp_ratio", 1e8), "mlp_dim");
    expect_contains(error_with("prompt_encoder_config", "num_point_embeddings", 3), "num_point_embeddings");
    expect_contains(error_with("prompt_encoder_config", "mask_input_channels", 6), "mask_input_channels");
    expect_contains(error_with("mask_decoder_config", "hidden_size", 128), "as wide as output_channels");
    expect_contains(error_with("mask_decoder_config", "hidden_act", "gelu"), "relu");
    expect_contains(error_with("mask_decoder_config", "iou_head_depth", 1), "iou_head_depth");
    expect_contains(error_of([] { Sam1Config::from_json(parse_configuration("{", "c"), "c"); }), "not valid JSON");
    expect_contains(error_of([] { Sam1Config::from_json(parse_configuration("[1]", "c"), "c"); }),
                    "expected an object");
    expect_contains(error_of([] { Sam1Config::from_json(parse_configuration(R"({"model_type": 3})", "c"), "c"); }),
                    "found '3'");
    expect_contains(error_of([] { Sam1Config::from_json(parse_configuration(R"({"model_type": "sam"})", "c"), "c"); }),
                    "vision_config");
}

TEST(Sam1Config, DamagedShapesAreNamed) {
    const auto error_with = [](const std::string& name, const Shape& shape) {
        std::vector<NamedShape> tensors = vit_b_tensors();
        for (NamedShape& tensor : tensors)
            if (tensor.official == name) tensor.shape = shape;
        return error_of([&] { load_without_weights(file_of(tensors, true)); });
    };
    expect_contains(error_with("image_encoder.pos_embed", {64, 64, 768}), "pos_embed");
    expect_contains(error_with("image_encoder.patch_embed.proj.weight", {768, 3, 0, 0}), "0 pixels");
    expect_contains(error_with("image_encoder.blocks.3.attn.rel_pos_h", {9, 64}), "windows of 5");
    expect_contains(error_with("image_encoder.blocks.11.attn.rel_pos_h", {127, 0}), "relative positions");
    expect_contains(error_with("image_encoder.blocks.3.attn.rel_pos_w", {9, 64}), "rel_pos_w");
    expect_contains(error_with("mask_decoder.transformer.final_attn_token_to_image.q_proj.weight", {0, 256}),
                    "odd shape");
    expect_contains(error_with("mask_decoder.mask_tokens.weight", {1, 256}), "num_multimask_outputs");
}

}  // namespace
}  // namespace sam3::test
