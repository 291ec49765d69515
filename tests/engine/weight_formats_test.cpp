// The same network from files of different kinds.
#include "engine/image_session.h"
#include "support/goldens.h"
#include "support/models.h"
#include "tests/weights/ggml_sam3.h"
#include "tests/weights/mlx_sam3.h"
#include "tests/weights/official_sam3.h"

namespace sam3::test {
namespace {

namespace fs = std::filesystem;

// Beside a weight file that says nothing about sizes.
void copy_side_files(const std::string& model, const TemporaryFolder& folder) {
    for (const char* name : {"config.json", "tokenizer.json"})
        if (fs::exists(data_path("models/" + model) + "/" + name))
            fs::copy_file(data_path("models/" + model) + "/" + name, folder / name);
}

Image some_image() {
    Image image(60, 40, 3);
    for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i * 31 % 251);
    return image;
}

std::vector<Detection> find_concept(const std::string& path) {
    ImageSession session(load_model({.path = path, .behaviour = "hf", .image_size = 0}), 2);
    const Image image = some_image();
    session.encode({&image, 1});
    ConceptPrompt prompt;
    prompt.text = "red circle";
    prompt.options.threshold = 0.05F;
    return session.segment({&prompt, 1}).front().detections;
}

Tensor click(const std::string& path) {
    ImageSession session(load_model({.path = path, .behaviour = "", .image_size = 0}), 2);
    const Image image = some_image();
    session.encode({&image, 1});
    VisualQuery query;
    query.points = {{20, 10, true}};
    return session.segment({&query, 1}).front().candidates.front().logits;
}

void expect_same_answers(const std::string& path, const std::string& original) {
    const std::vector<Detection> found = find_concept(path), wanted = find_concept(original);
    ASSERT_EQ(found.size(), wanted.size());
    ASSERT_FALSE(found.empty());
    for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].score, wanted[i].score);
        EXPECT_EQ(found[i].mask, wanted[i].mask);
    }
}

void expect_same_clicks(const std::string& path, const std::string& original) {
    const Tensor found = click(path), wanted = click(original);
    ASSERT_EQ(found.shape(), wanted.shape());
    EXPECT_EQ(std::memcmp(found.raw(), wanted.raw(), static_cast<size_t>(wanted.numel()) * sizeof(float)), 0);
}

TEST(WeightFormats, MetasSam3FileSegmentsAsTheHuggingFaceFolderDoes) {
    const TemporaryFolder folder;
    const std::string path = folder.write("sam3.pt", official_sam3());
    copy_side_files("sam3-a", folder);
    expect_same_answers(path, data_path("models/sam3-a"));
    expect_same_clicks(path, data_path("models/sam3-a"));
}

TEST(WeightFormats, AGgmlFileSegmentsAsTheHuggingFaceFolderDoes) {
    const TemporaryFolder folder;
    const std::string path = folder.write("sam3.ggml", ggml_sam3());
    copy_side_files("sam3-a", folder);
    expect_same_answers(path, data_path("models/sam3-a"));
    expect_same_clicks(path, data_path("models/sam3-a"));
}

TEST(WeightFormats, AnMlxFileFindsConceptsAsTheHuggingFaceFolderDoes) {
    const TemporaryFolder folder;
    const std::string path = folder.write("mlx.safetensors", to_safetensors(mlx_sam3()));
    copy_side_files("sam3-a", folder);
    expect_same_answers(path, data_path("models/sam3-a"));
}

// SAM 3.1's image model has SAM 3's architecture, so SAM 3's numbers under the new names must give the same answers.
TEST(WeightFormats, Sam31SegmentsImagesAndSaysThatItFollowsNothing) {
    const Bytes official = official_sam3();
    std::vector<NamedTensor> tensors;
    for (NamedTensor& tensor : tensors_of(parse_torch_file(official.data(), official.size(), "sam3.pt"))) {
        for (const auto& [old_name, new_name] : std::vector<std::pair<std::string, std::string>>{
                 {"detector.backbone.vision_backbone.sam2_convs.",
                  "detector.backbone.vision_backbone.interactive_convs."},
                 {"tracker.sam_prompt_encoder.", "tracker.model.interactive_sam_prompt_encoder."},
                 {"tracker.sam_mask_decoder.", "tracker.model.interactive_sam_mask_decoder."},
                 {"tracker.no_mem_embed", "tracker.model.interactivity_no_mem_embed"},
                 {"tracker.no_mem_pos_enc", ""},
                 {"tracker.mask_downsample.", "tracker.model.interactive_mask_downsample."},
                 {"tracker.maskmem_", "tracker.model.maskmem_"},
                 {"tracker.transformer.", "tracker.model.transformer."},
                 {"tracker.obj_ptr_", "tracker.model.obj_ptr_"},
                 {"tracker.no_obj_", "tracker.model.no_obj_"}})
            if (tensor.name.compare(0, old_name.size(), old_name) == 0)
                tensor.name = new_name.empty() ? "" : new_name + tensor.name.substr(old_name.size());
        if (!tensor.name.empty() && tensor.name.find("convs.3.") == std::string::npos)
            tensors.push_back(std::move(tensor));
    }
    const TemporaryFolder folder;
    const std::string path = folder.write("sam3.1.safetensors", to_safetensors(tensors));
    copy_side_files("sam3-a", folder);
    expect_same_answers(path, data_path("models/sam3-a"));
    expect_same_clicks(path, data_path("models/sam3-a"));
    const auto model = load_model({.path = path, .behaviour = "", .image_size = 0});
    EXPECT_EQ(model->name(), "SAM 3.1, Meta's names");
    EXPECT_FALSE(model->follows_objects());
}

TEST(WeightFormats, MetasSam1FileSegmentsAsTheHuggingFaceFolderDoes) {
    const TemporaryFolder folder;
    const std::string path = folder.write("sam_vit_b.pth", read_bytes(data_path("weights/sam1-b.pth")));
    copy_side_files("sam1-b", folder);
    expect_same_clicks(path, data_path("models/sam1-b"));
}

}  // namespace
}  // namespace sam3::test
