// Whole checkpoints in other forms, against the same weights in Hugging Face's form.
#include "tests/weights/ggml_sam3.h"
#include "tests/weights/official_sam3.h"
#include "weights/binder.h"
#include "weights/name_maps.h"
#include "weights/name_maps_sam1.h"

namespace sam3::test {
namespace {

using FilePointer = std::shared_ptr<const WeightFile>;

void expect_same_weights(const FilePointer& original, const NameMap& expected_names, const FilePointer& file,
                         const NameMap& names, const std::string& left_out = "") {
    WeightLoader wanted(original, expected_names), found(file, names);
    size_t compared = 0;
    for (const WeightTensor& tensor : original->tensors()) {
        for (const MappedName& mapped : map_name(expected_names, tensor.name)) {
            if (mapped.canonical == left_out) continue;
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
    EXPECT_GE(compared + (left_out.empty() ? 0 : 1), original->tensors().size());
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

TEST(WholeFiles, Sam1HoldsTheSameNumbersBitByBit) {
    const auto file = open_weight_file(std::string(SAM3_TEST_DATA) + "/weights/sam1-b.pth");
    ASSERT_EQ(&sam1_name_map(*file), &sam1_official_names());
    const auto expected = open_weight_file(std::string(SAM3_TEST_DATA) + "/models/sam1-b");
    expect_same_weights(expected, sam1_hf_names(), file, sam1_official_names());
}

}  // namespace
}  // namespace sam3::test
