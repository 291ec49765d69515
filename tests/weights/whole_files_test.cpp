// Whole checkpoints in other forms, against the same weights in Hugging Face's form.
#include "tests/weights/ggml_sam3.h"
#include "tests/weights/mlx_sam3.h"
#include "tests/weights/official_sam3.h"
#include "weights/binder.h"
#include "weights/gguf_writer.h"
#include "weights/name_maps.h"
#include "weights/name_maps_sam1.h"

namespace sam3::test {
namespace {

using FilePointer = std::shared_ptr<const WeightFile>;

void expect_same_weights(const FilePointer& original, const NameMap& expected_names, const FilePointer& file,
                         const NameMap& names, const std::string& left_out = "") {
    WeightLoader wanted(original, expected_names), found(file, names);
    size_t compared = 0, passed_over = 0;
    for (const WeightTensor& tensor : original->tensors()) {
        for (const MappedName& mapped : map_name(expected_names, tensor.name)) {
            if (match_name(left_out, mapped.canonical)) {
                ++passed_over;
                continue;
            }
            const auto shape = wanted.root().shape_of(mapped.canonical);
            ASSERT_TRUE(shape) << mapped.canonical;
            const Tensor a = wanted.root().tensor(mapped.canonical, *shape);
            const Tensor b = found.root().tensor(mapped.canonical, *shape);
            EXPECT_EQ(std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.numel()) * sizeof(float)), 0)
                << mapped.canonical;
            ++compared;
        }
    }
    found.finish("the copy", {});
    EXPECT_GE(compared + passed_over, original->tensors().size());
    EXPECT_GT(compared, 100U);
}

TEST(WholeFiles, Sam3HoldsTheSameNumbersBitByBit) {
    const TemporaryFolder folder;
    const auto file = open_weight_file(folder.write("sam3.pt", official_sam3()));
    ASSERT_EQ(&sam3_name_map(*file), &sam3_official_names());
    const auto expected = open_weight_file(std::string(SAM3_TEST_DATA) + "/models/sam3-a");
    expect_same_weights(expected, sam3_hf_names(), file, sam3_official_names());
    EXPECT_EQ(file->find("detector.backbone.vision_backbone.trunk.blocks.0.attn.freqs_cis")->type_name,
              "torch.complex64");
}

TEST(WholeFiles, AGgmlFileHoldsTheSameNumbersBitByBit) {
    const TemporaryFolder folder;
    const auto file = open_weight_file(folder.write("sam3.ggml", ggml_sam3()));
    ASSERT_EQ(&sam3_name_map(*file), &sam3_ggml_names());
    const auto expected = open_weight_file(std::string(SAM3_TEST_DATA) + "/models/sam3-a");
    expect_same_weights(expected, sam3_hf_names(), file, sam3_ggml_names(),
                        "detector_model.text_encoder.text_projection.weight");  // never read, so never written
}

TEST(WholeFiles, AnMlxFileAndAGgufFileWithHashedNamesHoldTheSameNumbersBitByBit) {
    const TemporaryFolder folder;
    const std::vector<NamedTensor> tensors = mlx_sam3();
    const std::string plain = folder.write("model.safetensors", to_safetensors(tensors)), hashed = folder / "sam3.gguf";
    GgufWriter writer(hashed);
    for (const NamedTensor& tensor : tensors)
        writer.declare(HashedNames::hash(tensor.name), WeightType::f16, tensor.shape);
    for (const NamedTensor& tensor : tensors) writer.write_bytes(tensor.data.data(), tensor.data.size());
    writer.finish();
    const auto expected = open_weight_file(std::string(SAM3_TEST_DATA) + "/models/sam3-a");
    for (const std::string& path : {plain, hashed}) {
        const auto file = open_weight_file(path);
        ASSERT_EQ(&sam3_name_map(*file), &sam3_mlx_names());
        expect_same_weights(expected, sam3_hf_names(), file, sam3_mlx_names(), "tracker_model.**");
    }
}

TEST(WholeFiles, Sam1HoldsTheSameNumbersBitByBit) {
    const auto file = open_weight_file(std::string(SAM3_TEST_DATA) + "/weights/sam1-b.pth");
    ASSERT_EQ(&sam1_name_map(*file), &sam1_official_names());
    const auto expected = open_weight_file(std::string(SAM3_TEST_DATA) + "/models/sam1-b");
    expect_same_weights(expected, sam1_hf_names(), file, sam1_official_names());
}

}  // namespace
}  // namespace sam3::test
