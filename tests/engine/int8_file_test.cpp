// Weights that were coded as int8 when the file was written are those that are coded when it is loaded.
#include "engine/image_session.h"
#include "engine/model_registry.h"
#include "engine/model_writer.h"
#include "models/precision_policy.h"
#include "support/goldens.h"
#include "tests/weights/files.h"
#include "weights/binder.h"
#include "weights/int8_codes.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

namespace sam3::test {
namespace {

using Traced = std::map<std::string, std::vector<float>>;

std::string written(const std::string& input, const std::string& output, WeightType type, bool requantize = false) {
    WriteModelOptions options;
    options.input = input;
    options.output = output;
    options.type = type;
    options.requantize = requantize;
    write_model(options);
    return output;
}

std::string model_in_the_box() { return std::string(SAM3_TEST_DATA) + "/../../models/sam3-shapes.gguf"; }

// Every named intermediate of a phrase and a click.
Traced answers(const std::string& path, const std::string& precision) {
    LoadOptions options;
    options.path = path;
    options.device = "cpu";
    options.precision = precision;
    ImageSession session(Model::load(options), 2);
    Traced traced;
    session.ops().set_trace([&](const std::string& name, const Tensor& tensor) {
        const Tensor host = session.ops().download(tensor);
        if (host.dtype() == DType::f32) traced[name].assign(host.data<float>(), host.data<float>() + host.numel());
    });
    Image image(90, 70, 3);
    for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i * 31 % 251);
    session.encode({&image, 1});
    VisualQuery query;
    query.points = {{20, 10, true}};
    const Tensor logits = session.segment({&query, 1}).front().candidates.front().logits;
    traced["click"].assign(logits.data<float>(), logits.data<float>() + logits.numel());
    if (!session.model().finds_concepts()) return traced;
    ConceptPrompt prompt;
    prompt.text = "red circle";
    session.segment({&prompt, 1});
    return traced;
}

void expect_same_bits(const Traced& found, const Traced& wanted) {
    ASSERT_EQ(found.size(), wanted.size());
    ASSERT_FALSE(found.empty());
    for (const auto& [name, values] : wanted) {
        ASSERT_EQ(found.at(name).size(), values.size()) << name;
        EXPECT_EQ(std::memcmp(found.at(name).data(), values.data(), values.size() * sizeof(float)), 0) << name;
    }
}

TEST(Int8File, AnswersAsTheFileItWasMadeFromBitForBit) {
    const TemporaryFolder folder;
    const std::string path = written(model_in_the_box(), folder / "int8.gguf", WeightType::i8, /*requantize=*/true);
    const Traced wanted = answers(model_in_the_box(), "int8");
    expect_same_bits(answers(path, "int8"), wanted);
    expect_same_bits(answers(path, "auto"), wanted);  // its own precision
    const Traced exact = answers(model_in_the_box(), "auto");
    EXPECT_NE(exact.at("vision.backbone"), wanted.at("vision.backbone"));  // else int8 was not used
}

TEST(Int8File, IsMadeOfF16AndOfSam1Too) {
    const TemporaryFolder folder;
    for (const char* model : {"sam3-v", "sam1-b"}) {
        const std::string half =
            written(data_path(str("models/", model)), folder / str(model, "-f16.gguf"), WeightType::f16);
        const std::string path = written(half, folder / str(model, "-int8.gguf"), WeightType::i8);
        expect_same_bits(answers(path, "int8"), answers(half, "int8"));
    }
}

// In f32 the codes' values are used: the same as if they had been written out.
TEST(Int8File, RunsInOtherPrecisionsWithTheValuesOfItsCodes) {
    const TemporaryFolder folder;
    const std::string path = written(data_path("models/sam3-v"), folder / "int8.gguf", WeightType::i8);
    const std::string whole = written(path, folder / "f32.gguf", WeightType::f32);
    for (const char* precision : {"f32", "bf16"}) expect_same_bits(answers(path, precision), answers(whole, precision));
}

TEST(Int8File, HoldsCodesForExactlyTheLayersThatThePolicyNames) {
    const TemporaryFolder folder;
    const std::string path = written(data_path("models/sam3-v"), folder / "int8.gguf", WeightType::i8);
    const auto file = open_weight_file(path);
    EXPECT_TRUE(holds_int8_layers(*file));
    EXPECT_FALSE(holds_int8_layers(*open_weight_file(data_path("models/sam3-v"))));
    const NetworkPlan plan = plan_network(file, {});
    WeightLoader loader(file, *plan.names);
    size_t coded = 0, transposed = 0;
    for (const std::string& name : plan.tensors) {
        const auto stored = loader.stored(name);
        ASSERT_TRUE(stored.has_value()) << name;
        EXPECT_EQ(stored->type == WeightType::i8, plan.int8_layers.contains(name)) << name;
        if (stored->type != WeightType::i8) continue;
        ++coded;
        EXPECT_EQ(precision_policy(name, Precision::int8), Precision::int8) << name;
        transposed += plan.int8_layers.at(name).channels == OutputChannels::rest ? 1 : 0;
    }
    EXPECT_GT(coded, 50U);
    EXPECT_GT(transposed, 0U);
    for (const char* name : {"detector_model.vision_encoder.backbone.layers.0.attention.q_proj.weight",
                             "detector_model.vision_encoder.neck.fpn_layers.0.proj2.weight",
                             "detector_model.detr_decoder.layers.0.mlp.fc1.weight"})
        EXPECT_TRUE(plan.int8_layers.contains(name)) << name;
    for (const WeightTensor& tensor : file->tensors()) EXPECT_LT(tensor.name.size(), 64U) << tensor.name;
}

TEST(Int8File, CodesAreMadeOfCodesOnlyWhenAllowed) {
    const TemporaryFolder folder;
    const std::string blocks = written(data_path("models/sam3-v"), folder / "q8_0.gguf", WeightType::q8_0);
    const std::string path = written(data_path("models/sam3-v"), folder / "int8.gguf", WeightType::i8);
    const auto refusal = [&](const std::string& input, WeightType type) {
        return error_of([&] { written(input, folder / "out.gguf", type); });
    };
    expect_contains(refusal(blocks, WeightType::i8), "--requantize");
    expect_contains(refusal(path, WeightType::q8_0), "--requantize");
    written(path, folder / "out.gguf", WeightType::q8_0, /*requantize=*/true);
    written(path, folder / "same.gguf", WeightType::i8);
    EXPECT_EQ(read_bytes(folder / "same.gguf"), read_bytes(path));
}

TEST(Int8Codes, RefuseWhatIsNotFiniteAndTakeZerosAndTinyNumbers) {
    const std::vector<float> values{0, 0, 1e-33F, -1e-33F, 2, -1};
    const Int8Codes coded = encode_int8(values.data(), {3, 2}, OutputChannels::first);
    EXPECT_EQ(coded.codes, (std::vector<int8_t>{0, 0, 0, 0, 127, -64}));
    EXPECT_EQ(coded.scales, (std::vector<float>{0, 0, 2.0F / 127.0F}));
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
        expect_contains(error_of([&] { encode_int8(&bad, {1, 1}, OutputChannels::first); }), "not finite");
}

}  // namespace
}  // namespace sam3::test
