// A model written as GGUF is the same model.
#include "engine/model_writer.h"

#include "engine/image_session.h"
#include "engine/model_registry.h"
#include "engine/model_vocabulary.h"
#include "models/configuration.h"
#include "models/sam1_config.h"
#include "support/goldens.h"
#include "support/models.h"
#include "tests/weights/files.h"
#include "weights/binder.h"
#include "weights/codecs.h"
#include "weights/name_maps_gguf.h"
#include "weights/type_policy.h"

#include <cstring>

namespace sam3::test {
namespace {

std::string written(const TemporaryFolder& folder, const std::string& model, std::optional<WeightType> type,
                    const std::string& name = "model.gguf") {
    WriteModelOptions options;
    options.input = model.find('/') == std::string::npos ? data_path("models/" + model) : model;
    options.output = folder / name;
    options.type = type;
    write_model(options);
    return options.output;
}

Image some_image() {
    Image image(60, 40, 3);
    for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i * 31 % 251);
    return image;
}

Tensor click(const std::string& path, const Parts& parts = {}) {
    ImageSession session(load_model({.path = path, .behaviour = "", .image_size = 0, .parts = parts}), 2);
    const Image image = some_image();
    session.encode({&image, 1});
    VisualQuery query;
    query.points = {{20, 10, true}};
    return session.segment({&query, 1}).front().candidates.front().logits;
}

std::vector<Detection> find_concept(const std::string& path, const Parts& parts = {}) {
    ImageSession session(load_model({.path = path, .behaviour = "", .image_size = 0, .parts = parts}), 2);
    const Image image = some_image();
    session.encode({&image, 1});
    ConceptPrompt prompt;
    prompt.text = "red circle";
    prompt.options.threshold = 0.05F;
    return session.segment({&prompt, 1}).front().detections;
}

void expect_equal(const Tensor& found, const Tensor& wanted) {
    ASSERT_EQ(found.shape(), wanted.shape());
    EXPECT_EQ(std::memcmp(found.raw(), wanted.raw(), static_cast<size_t>(wanted.numel()) * sizeof(float)), 0);
}

void expect_equal(const std::vector<Detection>& found, const std::vector<Detection>& wanted) {
    ASSERT_EQ(found.size(), wanted.size());
    ASSERT_FALSE(found.empty());
    for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].score, wanted[i].score);
        EXPECT_EQ(found[i].mask, wanted[i].mask);
    }
}

TEST(ModelWriter, AnF32FileIsTheSameModel) {
    const TemporaryFolder folder;
    const std::string path = written(folder, "sam3-a", WeightType::f32);
    expect_equal(click(path), click(data_path("models/sam3-a")));
    expect_equal(find_concept(path), find_concept(data_path("models/sam3-a")));
}

TEST(ModelWriter, ASam1FileIsTheSameModel) {
    const TemporaryFolder folder;
    expect_equal(click(written(folder, "sam1-b", WeightType::f32)), click(data_path("models/sam1-b")));
}

TEST(ModelWriter, TheFileHoldsSizesBehaviourTokenizerAndSource) {
    const TemporaryFolder folder;
    const auto file = open_weight_file(written(folder, "sam3-v", std::nullopt));
    const auto original = open_weight_file(data_path("models/sam3-v"));
    const NetworkPlan plan = plan_network(file, {}), wanted = plan_network(original, {});
    EXPECT_EQ(*plan.configuration, *wanted.configuration);
    EXPECT_FALSE(file->side_path("config.json").has_value());
    EXPECT_EQ(vocabulary_of(*file)->ids, vocabulary_of(*original)->ids);
    EXPECT_EQ(vocabulary_of(*file)->merges, vocabulary_of(*original)->merges);
    EXPECT_EQ(file->metadata().get_string("sam3cpp.source.sha256").size(), 64U);
    EXPECT_NE(file->metadata().get_string("sam3cpp.source.sha256"), std::string(64, '0'));
    EXPECT_EQ(file->metadata().get_string("general.architecture"), "sam3");
}

TEST(ModelWriter, TheFileNeedsNothingThatLiesBesideIt) {
    const TemporaryFolder folder;
    const std::string path = written(folder, "sam3-v", WeightType::f32);
    folder.write("config.json", std::string(R"({"model_type": "another"})"));
    folder.write("tokenizer.json", std::string("no tokenizer"));
    expect_equal(click(path), click(data_path("models/sam3-v")));
    EXPECT_EQ(vocabulary_of(*open_weight_file(path))->merges,
              vocabulary_of(*open_weight_file(data_path("models/sam3-v")))->merges);
}

// The parts of the network are other sets of tensors; what is read gives the same answers.
TEST(ModelWriter, PartsOfAModelAnswerAsTheWhole) {
    const TemporaryFolder folder;
    const std::string path = written(folder, "sam3-a", WeightType::f32);
    const auto file = open_weight_file(path);
    const size_t all = plan_network(file, {}).tensors.size();
    const Parts clicks{.concepts = false, .clicks = true, .video = false};
    const Parts concepts{.concepts = true, .clicks = false, .video = false};
    EXPECT_LT(plan_network(file, {"", clicks}).tensors.size(), all);
    EXPECT_LT(plan_network(file, {"", concepts}).tensors.size(), all);
    expect_equal(click(path, clicks), click(path));
    expect_equal(find_concept(path, concepts), find_concept(path));
    EXPECT_THROW(find_concept(path, clicks), Error);
    EXPECT_THROW(click(path, concepts), Error);
}

TEST(ModelWriter, TheVisualCutFollowsClicksAndKnowsNoText) {
    const TemporaryFolder folder;
    WriteModelOptions options;
    options.input = data_path("models/sam3-v");
    options.output = folder / "visual.gguf";
    options.type = WeightType::f32;
    options.visual_only = true;
    write_model(options);
    expect_equal(click(options.output), click(options.input));
    const auto model = load_model({.path = options.output, .behaviour = "", .image_size = 0});
    EXPECT_FALSE(model->finds_concepts());
    EXPECT_TRUE(model->follows_objects());
    const auto file = open_weight_file(options.output);
    for (const WeightTensor& tensor : file->tensors())
        EXPECT_TRUE(tensor.name.starts_with("vision.") || tensor.name.starts_with("trk")) << tensor.name;
}

// Every tensor holds what encoding and decoding the original by itself gives.
TEST(ModelWriter, EveryTypeHoldsItsOwnRoundingOfEveryTensor) {
    const auto original = open_weight_file(data_path("models/sam3-v"));
    const NetworkPlan plan = plan_network(original, {});
    WeightLoader wanted(original, *plan.names);
    for (const std::string_view name : writable_type_names()) {
        const TemporaryFolder folder;
        const WeightType type = weight_type_by_name(name);
        if (type == WeightType::i8) continue;  // int8_file_test.cpp
        const auto file = open_weight_file(written(folder, "sam3-v", type));
        WeightLoader found(file, sam3_gguf_names());
        bool used = false;
        for (const std::string& tensor : plan.tensors) {
            const auto stored = found.stored(tensor);
            ASSERT_TRUE(stored.has_value()) << tensor;
            used = used || stored->type == type;
            Tensor values = wanted.root().tensor(tensor, *wanted.shape_of(tensor));
            const int64_t count = values.numel();
            std::vector<uint8_t> bytes(stored->bytes);
            encode_from_f32(stored->type, values.data<float>(), count, bytes.data());
            ASSERT_EQ(std::memcmp(bytes.data(), stored->data, stored->bytes), 0) << name << " " << tensor;
        }
        EXPECT_TRUE(used || type == WeightType::q4_k || type == WeightType::q5_k || type == WeightType::q6_k) << name;
        EXPECT_NO_THROW(plan_network(file, {})) << name;
    }
}

TEST(ModelWriter, QuantisingAFileEqualsWritingItSo) {
    const TemporaryFolder folder;
    const std::string whole = written(folder, "sam3-v", WeightType::f32);
    const std::string direct = written(folder, "sam3-v", WeightType::q8_0, "direct.gguf");
    const std::string later = written(folder, whole, WeightType::q8_0, "later.gguf");
    EXPECT_EQ(read_bytes(later), read_bytes(direct));
    // Without a type, blocks stay as they are.
    EXPECT_EQ(open_weight_file(written(folder, direct, std::nullopt, "same.gguf"))->tensors().size(),
              open_weight_file(direct)->tensors().size());
}

TEST(ModelWriter, RefusesToLoseTwiceAndToReplaceItsInput) {
    const TemporaryFolder folder;
    const std::string path = written(folder, "sam3-v", WeightType::q8_0);
    WriteModelOptions options;
    options.input = path;
    options.output = folder / "four.gguf";
    options.type = WeightType::q4_0;
    expect_contains(error_of([&] { write_model(options); }), "--requantize");
    EXPECT_FALSE(std::filesystem::exists(options.output));
    options.requantize = true;
    write_model(options);
    options.output = path;
    expect_contains(error_of([&] { write_model(options); }), "would replace the input");
    options.input = data_path("models/points.safetensors");
    options.output = folder / "none.gguf";
    EXPECT_THROW(write_model(options), Error);
    EXPECT_FALSE(std::filesystem::exists(options.output));
}

TEST(TypePolicy, KeepsPrecisionWhereItMatters) {
    const Shape matrix{256, 256};
    EXPECT_EQ(stored_type("detector_model.vision_encoder.backbone.layers.0.mlp.fc1.weight", matrix, WeightType::q4_0),
              WeightType::q4_0);
    EXPECT_EQ(stored_type("a.layer_norm.weight", {256}, WeightType::q4_0), WeightType::f32);
    EXPECT_EQ(stored_type("detector_model.text_encoder.text_model.embeddings.token_embedding.weight", matrix,
                          WeightType::q4_0),
              WeightType::q8_0);
    EXPECT_EQ(stored_type("detector_model.text_encoder.text_model.embeddings.token_embedding.weight", matrix,
                          WeightType::f16),
              WeightType::f16);
    EXPECT_EQ(stored_type("detector_model.detr_decoder.box_head.layer1.weight", matrix, WeightType::q8_0),
              WeightType::f16);
    EXPECT_EQ(stored_type("detector_model.detr_decoder.query_embed.weight", matrix, WeightType::f16), WeightType::f32);
    EXPECT_EQ(stored_type("a.weight", {4, 96}, WeightType::q4_k), WeightType::q4_1);
    EXPECT_EQ(stored_type("a.weight", {4, 9}, WeightType::q4_0), WeightType::f16);
    EXPECT_EQ(stored_type("a.weight", {4, 9}, WeightType::f32), WeightType::f32);
    expect_contains(error_of([] { weight_type_by_name("q3_k"); }), "known are f32, f16, bf16, int8, q4_0");
    EXPECT_EQ(weight_type_by_name("Q4_K"), WeightType::q4_k);
}

TEST(Configuration, FieldsSurviveTheWayThroughMetadata) {
    Sam1Config config;
    config.vision.image_size = 512;
    config.vision.global_layers = {1, 3};
    config.vision.activation = Activation::gelu_tanh;
    config.image_std = {0.25F, 0.5F, 1.0F};
    const nlohmann::json json = config.to_json();
    const Metadata metadata = configuration_to_metadata(json, "sam1");
    const nlohmann::json back = configuration_from_metadata(metadata, "sam1", "test");
    EXPECT_EQ(Sam1Config::from_json(back, "test").to_json(), json);

    Metadata bad;
    bad.add("sam3.a", int32_t{1});
    bad.add("sam3.a.b", int32_t{1});
    expect_contains(error_of([&] { configuration_from_metadata(bad, "sam3", "file.gguf"); }), "file.gguf");
    Metadata other;
    other.add("sam3.a.b", int32_t{1});
    other.add("sam3.a", int32_t{1});
    expect_contains(error_of([&] { configuration_from_metadata(other, "sam3", "file.gguf"); }),
                    "a field and a section");
}

}  // namespace
}  // namespace sam3::test
