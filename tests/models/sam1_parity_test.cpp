#include "models/configuration.h"
#include "models/sam1.h"

#include "image/normalize.h"
#include "image/resize.h"
#include "tests/support/device.h"
#include "tests/support/goldens.h"
#include "tests/support/tensors.h"
#include "util/error.h"
#include "weights/name_maps_sam1.h"

#include <nlohmann/json.hpp>

#include <map>

namespace sam3::test {
namespace {

using Json = nlohmann::json;

constexpr double kTolerance = 1e-5;  // of a tensor's range

std::string model_path(const std::string& name) { return data_path("models/" + name); }

std::unique_ptr<Sam1> load(const std::string& folder) {
    const auto file = open_weight_file(model_path(folder));
    const Sam1Config config = Sam1Config::from_json(configuration_of(*file)->json, *file->side_path("config.json"));
    WeightLoader loader(file, sam1_name_map(*file));
    auto model = std::make_unique<Sam1>(nn::LoadContext{device()}, loader.root(), config);
    loader.finish("SAM 1", sam1_unused_weights());
    return model;
}

const Sam1& shared_model(const std::string& folder) {
    static std::map<std::string, std::unique_ptr<Sam1>> models;
    auto& model = models[folder];
    if (!model) model = load(folder);
    return *model;
}

// The network's input for pictures of sam1-pictures: resized as transformers does, normalised, then padded.
Tensor prepare(const Sam1Config& config, const std::vector<int>& pictures, int size) {
    const Golden stored(model_path("sam1-pictures.safetensors"));
    Tensor pixels = Tensor::host({static_cast<int64_t>(pictures.size()), size, size, 3});
    Normalization normalization;
    std::copy_n(config.image_mean.begin(), 3, normalization.mean.begin());
    std::copy_n(config.image_std.begin(), 3, normalization.std.begin());
    float* out = pixels.data<float>();
    for (const int index : pictures) {
        const std::string name = "image." + std::to_string(index);
        const Shape shape = stored.shape(name);
        Image image(static_cast<int>(shape[1]), static_cast<int>(shape[0]), 3);
        image.pixels = stored.bytes(name);
        const Size fitted = fit_longest_side({image.width, image.height}, size);
        normalize_image(resize(image, fitted.width, fitted.height), normalization, {size, size}, out);
        out += static_cast<ptrdiff_t>(size) * size * 3;
    }
    return pixels;
}

// Runs with every named intermediate kept in host memory.
class Traced {
public:
    explicit Traced(int threads = 2) : ops(device(), threads) {
        ops.set_trace([this](const std::string& name, const Tensor& tensor) { tensors[name] = ops.download(tensor); });
    }
    Ops ops;
    std::map<std::string, Tensor> tensors;
};

Tensor encode(const Sam1& model, const Golden& image, Traced& traced) {
    const auto pictures = Json::parse(image.text("pictures")).get<std::vector<int>>();
    const Tensor pixels = prepare(model.config(), pictures, static_cast<int>(image.number("image_size")));
    traced.tensors["pixel_values"] = pixels;
    return model.encode(traced.ops, traced.ops.upload(pixels));
}

// mask: logits [h, w] for every prompt, or undefined.
SamMaskDecoder::Output decode(const Sam1& model, Ops& ops, const Tensor& embedding,
                              const std::vector<VisualPrompt>& prompts, const Tensor& mask = {}) {
    std::vector<InteractivePrompt> all;
    for (const VisualPrompt& prompt : prompts) all.push_back({prompt, mask});
    return model.interactive_head()->decode(ops, {embedding, {}, {}}, all,
                                            embedding.dim(1) * model.config().vision.patch_size);
}

std::vector<VisualPrompt> prompts_of(const Golden& golden) {
    const int64_t objects = golden.shape("masks")[0];
    std::vector<VisualPrompt> prompts(static_cast<size_t>(objects));
    const bool has_points = golden.has("input_points");
    const Tensor points = has_points ? golden.tensor("input_points") : Tensor();
    const Tensor labels = has_points ? golden.tensor("input_labels") : Tensor();
    const Tensor boxes = golden.has("input_boxes") ? golden.tensor("input_boxes") : Tensor();
    for (int64_t i = 0; i < objects; ++i) {
        VisualPrompt& prompt = prompts[static_cast<size_t>(i)];
        for (int64_t p = 0; has_points && p < points.dim(1); ++p) {
            const float* xy = points.data<float>() + (i * points.dim(1) + p) * 2;
            prompt.points.push_back({xy[0], xy[1], labels.data<float>()[i * points.dim(1) + p] > 0});
        }
        if (!boxes) continue;
        const float* box = boxes.data<float>() + i * 4;
        prompt.box = VisualPrompt::Box{box[0], box[1], box[2], box[3]};
    }
    return prompts;
}

// Low-resolution logits of one image [K, h, w] at its original size, as SAM 1's predictor and processor do it.
Tensor at_original_size(Ops& ops, const Tensor& logits, int64_t input, const std::vector<int64_t>& resized,
                        const std::vector<int64_t>& original) {
    const Tensor maps = ops.contiguous(logits).reshape({logits.dim(0), logits.dim(1), logits.dim(2), 1});
    const Tensor square = ops.resize(maps, input, input, Interpolation::bilinear);
    const Tensor cut = square.slice(1, 0, resized[0]).slice(2, 0, resized[1]);
    return ops.download(ops.resize(cut, original[0], original[1], Interpolation::bilinear));
}

// Pixels whose sign differs from the packed masks.
int64_t differing_pixels(const Tensor& logits, const std::vector<uint8_t>& packed) {
    const int64_t pixels = logits.numel() / logits.dim(0);
    const int64_t row = (pixels + 7) / 8;
    EXPECT_EQ(static_cast<int64_t>(packed.size()), row * logits.dim(0));
    int64_t count = 0;
    for (int64_t k = 0; k < logits.dim(0); ++k)
        for (int64_t i = 0; i < pixels; ++i) {
            const bool expected = (packed[static_cast<size_t>(k * row + i / 8)] >> (7 - i % 8) & 1) != 0;
            count += expected != (logits.data<float>()[k * pixels + i] > 0.0F);
        }
    return count;
}

struct Case {
    const char* model;
    const char* name;
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.model << "/" << c.name; }

std::string test_name(const ::testing::TestParamInfo<Case>& info) {
    std::string name = str(info.param.model, "_", info.param.name);
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

class Sam1Images : public ::testing::TestWithParam<Case> {};

TEST_P(Sam1Images, EveryIntermediateEqualsTheReference) {
    const auto [folder, name] = GetParam();
    const Golden golden(model_path(str(folder, "/", name, ".safetensors")));
    const Sam1& model = shared_model(folder);
    Traced traced;
    encode(model, golden, traced);
    EXPECT_LE(golden.error("pixel_values", traced.tensors["pixel_values"]), 1e-6);
    std::vector<std::string> names = {"vision.patch_embed", "vision.neck"};
    for (int i = 0; i < model.config().vision.layers; ++i) names.push_back("vision.block." + std::to_string(i));
    for (const std::string& tensor : names) {
        ASSERT_EQ(to_string(traced.tensors[tensor].shape()), to_string(golden.shape(tensor))) << tensor;
        EXPECT_LE(golden.error(tensor, traced.tensors[tensor]), kTolerance) << tensor;
    }
}

INSTANTIATE_TEST_SUITE_P(All, Sam1Images,
                         ::testing::Values(Case{"sam1-b", "image-0"}, Case{"sam1-b", "images-0-1"},
                                           Case{"sam1-b", "image-0-size160"}, Case{"sam1-l", "image-0"},
                                           Case{"sam1-l", "images-0-1"}, Case{"sam1-l", "image-0-size96"},
                                           Case{"sam1-h", "image-0"}, Case{"sam1-h", "images-0-1"}),
                         test_name);

class Sam1Prompts : public ::testing::TestWithParam<Case> {};

TEST_P(Sam1Prompts, TokensMasksAndScoresEqualTheReference) {
    const auto [folder, name] = GetParam();
    const Golden golden(model_path(str(folder, "/", name, ".safetensors")));
    const Golden image(model_path(str(folder, "/", golden.text("images"), ".safetensors")));
    const Sam1& model = shared_model(folder);
    Traced traced;
    const Tensor embedding = encode(model, image, traced);
    Tensor mask;
    if (golden.has("input_mask")) {
        const Tensor stored = golden.tensor("input_mask");  // 8 x + 128
        for (int64_t i = 0; i < stored.numel(); ++i)
            stored.data<float>()[i] = (stored.data<float>()[i] - 128.0F) / 8.0F;
        mask = stored;
    }
    const SamMaskDecoder::Output output = decode(model, traced.ops, embedding, prompts_of(golden), mask);
    traced.tensors["masks"] = traced.ops.download(output.masks);
    traced.tensors["iou"] = traced.ops.download(output.iou);
    for (const std::string tensor : {"prompt.sparse", "prompt.dense", "masks", "iou"}) {
        if (tensor == "prompt.sparse" && !golden.has(tensor)) {  // a mask alone brings no tokens
            EXPECT_EQ(traced.tensors[tensor].numel(), 0);
            continue;
        }
        ASSERT_EQ(to_string(traced.tensors[tensor].shape()), to_string(golden.shape(tensor))) << tensor;
        EXPECT_LE(golden.error(tensor, traced.tensors[tensor]), kTolerance) << tensor;
    }

    const auto sizes = Json::parse(golden.text("sizes")).get<std::vector<std::vector<int64_t>>>();
    const auto resized = Json::parse(golden.text("input_sizes")).get<std::vector<std::vector<int64_t>>>();
    const auto images = static_cast<int64_t>(sizes.size());
    const int64_t objects = output.masks.dim(0) / images;
    int64_t differing = 0;
    for (int64_t i = 0; i < images; ++i) {
        const auto n = static_cast<size_t>(i);
        const Tensor logits = output.masks.slice(0, i * objects, objects);
        const Tensor full =
            at_original_size(traced.ops, logits.reshape({objects * logits.dim(1), logits.dim(2), logits.dim(3)}),
                             static_cast<int64_t>(golden.number("image_size")), resized[n], sizes[n]);
        differing += differing_pixels(full, golden.bytes("result." + std::to_string(i) + ".masks"));
    }
    EXPECT_LE(differing, golden.number("close_pixels"));  // the golden's pixels within 1e-4 of the threshold
}

INSTANTIATE_TEST_SUITE_P(
    All, Sam1Prompts,
    ::testing::Values(Case{"sam1-b", "point"}, Case{"sam1-b", "points"}, Case{"sam1-b", "box"},
                      Case{"sam1-b", "point-box"}, Case{"sam1-b", "three-objects"}, Case{"sam1-b", "three-boxes"},
                      Case{"sam1-b", "mask"}, Case{"sam1-b", "refine"}, Case{"sam1-b", "batch"},
                      Case{"sam1-b", "point-size160"}, Case{"sam1-l", "point"}, Case{"sam1-l", "box"},
                      Case{"sam1-l", "three-objects"}, Case{"sam1-l", "mask"}, Case{"sam1-l", "batch"},
                      Case{"sam1-l", "point-size96"}, Case{"sam1-h", "point"}, Case{"sam1-h", "box"},
                      Case{"sam1-h", "three-objects"}, Case{"sam1-h", "mask"}, Case{"sam1-h", "batch"}),
    test_name);

// Prompts of different lengths are padded to a batch; the padding must not be seen.
TEST(Sam1, ABatchOfDifferentPromptsGivesWhatEachGivesAlone) {
    const Sam1& model = shared_model("sam1-b");
    const Golden image(model_path("sam1-b/image-0.safetensors"));
    Traced traced;
    const Tensor embedding = encode(model, image, traced);
    const std::vector<VisualPrompt> prompts = {
        {.points = {{20, 30, true}}, .box = {}},
        {.points = {}, .box = VisualPrompt::Box{10, 12, 90, 70}},
        {.points = {{60, 40, true}, {5, 6, false}, {100, 90, false}}, .box = {}},
        {.points = {}, .box = {}},
        {.points = {{50, 50, true}}, .box = VisualPrompt::Box{10, 12, 90, 70}},
    };
    const SamMaskDecoder::Output together = decode(model, traced.ops, embedding, prompts);
    for (size_t i = 0; i < prompts.size(); ++i) {
        const SamMaskDecoder::Output alone = decode(model, traced.ops, embedding, {prompts[i]});
        const auto row = static_cast<int64_t>(i);
        expect_close(traced.ops.download(together.masks.slice(0, row, 1)), traced.ops.download(alone.masks));
        expect_close(traced.ops.download(together.iou.slice(0, row, 1)), traced.ops.download(alone.iou));
    }
}

TEST(Sam1, ResultsDoNotDependOnTheNumberOfThreads) {
    const Sam1& model = shared_model("sam1-h");
    const Golden image(model_path("sam1-h/image-0.safetensors"));
    Traced one(1);
    Traced three(3);
    const Tensor embedding = encode(model, image, one);
    expect_equal(three.ops.download(encode(model, image, three)), one.ops.download(embedding));
    const std::vector<VisualPrompt> prompts = {{.points = {{20, 30, true}}, .box = {}}};
    expect_equal(three.ops.download(decode(model, three.ops, embedding, prompts).masks),
                 one.ops.download(decode(model, one.ops, embedding, prompts).masks));
}

TEST(Sam1, RefusesInputsThatDoNotFit) {
    const Sam1& model = shared_model("sam1-b");
    Ops ops(device(), 1);
    EXPECT_THROW(model.encode(ops, ops.full({1, 120, 128, 3}, 0)), Error);
    const Tensor embedding = ops.full({2, 8, 8, 32}, 0);
    const VisualPrompt prompt{.points = {{1, 2, true}}, .box = {}};
    EXPECT_THROW(decode(model, ops, embedding, {}), Error);
    EXPECT_THROW(decode(model, ops, embedding, {prompt, prompt, prompt}), Error);
    EXPECT_THROW(decode(model, ops, embedding, {prompt, prompt}, ops.full({16, 32}, 0)), Error);
}

}  // namespace
}  // namespace sam3::test
