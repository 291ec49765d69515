#include "weights/name_maps.h"

#include "tests/weights/name_lists.h"
#include "weights/binder.h"
#include "weights/hashed_names.h"

#include <set>

namespace sam3::test {
namespace {

bool is_unused(const std::string& name) {
    for (const IgnoreRule& rule : sam3_unused_weights())
        if (match_name(rule.pattern, name)) return true;
    return false;
}

TEST(Sam3Names, TheListsAreComplete) {
    EXPECT_EQ(read_shapes("sam3-official-names.txt").size(), 1465U);
    EXPECT_EQ(read_shapes("sam3-hf-names.txt").size(), 1797U);
    EXPECT_EQ(read_list("sam3-official-to-hf.txt").size(), 1465U);
    EXPECT_EQ(read_shapes("sam3-ggml-names.txt").size(), 1464U);
    EXPECT_EQ(read_shapes("sam3-visual-ggml-names.txt").size(), 751U);
    EXPECT_EQ(read_list("sam3-ggml-to-official.txt").size(), 1464U);
}

TEST(Sam3Names, MetasCheckpointProvidesEveryHuggingFaceTensorInItsShape) {
    const auto file = file_with(read_shapes("sam3-official-names.txt"));
    ASSERT_EQ(&sam3_name_map(*file), &sam3_official_names());
    WeightLoader loader(file, sam3_name_map(*file));
    for (const auto& [name, shape] : read_shapes("sam3-hf-names.txt"))
        EXPECT_EQ(loader.root().shape_of(name), shape) << name;
}

TEST(Sam3Names, EveryTensorOfMetasCheckpointHasAHuggingFaceNameOrAReason) {
    const std::map<std::string, Shape> canonical = read_shapes("sam3-hf-names.txt");
    int ignored = 0;
    for (const auto& [name, shape] : read_shapes("sam3-official-names.txt")) {
        const std::vector<MappedName> mapped = map_name(sam3_official_names(), name);
        for (const MappedName& part : mapped)
            EXPECT_TRUE(canonical.count(part.canonical) == 1 || is_unused(part.canonical))
                << name << " " << part.canonical;
        if (!mapped.empty()) continue;
        ++ignored;
        EXPECT_NE(name.find("freqs_cis"), std::string::npos) << name;
    }
    EXPECT_EQ(ignored, 32);
}

// Shapes cannot tell norm1 from norm2; the pairs come from transformers' own conversion script.
TEST(Sam3Names, EachNameIsTheOneThatTheReferenceConverterGives) {
    for (const std::string& line : read_list("sam3-official-to-hf.txt")) {
        const size_t arrow = line.find(" -> ");
        const std::string official = line.substr(0, arrow);
        std::string expected = line.substr(arrow + 4);
        if (expected.find("rotary_emb") != expected.npos) continue;
        const std::vector<MappedName> mapped = map_name(sam3_official_names(), official);
        ASSERT_FALSE(mapped.empty()) << official;
        // The converter renames first and splits or stacks afterwards.
        if (const size_t fused = expected.find(".qkv."); fused != expected.npos) expected.replace(fused, 5, ".q_proj.");
        if (const size_t fused = expected.find("in_proj_"); fused != expected.npos)
            expected.replace(fused, 8, "q_proj.");
        if (expected.find(".point_embed.") != expected.npos)
            expected = "tracker_model.prompt_encoder.point_embed.weight";
        EXPECT_EQ(mapped.front().canonical, expected) << official;
        for (size_t i = 1; i < mapped.size(); ++i) {
            std::string other = expected;
            other[other.rfind("q_proj")] = i == 1 ? 'k' : 'v';
            EXPECT_EQ(mapped[i].canonical, other) << official;
        }
    }
}

TEST(Sam3Names, DetectorsWithoutPrefixAreFound) {
    std::map<std::string, Shape> official, alone;
    for (const auto& [name, shape] : read_shapes("sam3-official-names.txt"))
        if (name.compare(0, 9, "detector.") == 0) official[name.substr(9)] = shape;
    for (const auto& [name, shape] : read_shapes("sam3-hf-names.txt"))
        if (name.compare(0, 15, "detector_model.") == 0) alone[name.substr(15)] = shape;
    const auto official_file = file_with(official), alone_file = file_with(alone);
    ASSERT_EQ(&sam3_name_map(*official_file), &sam3_official_names());
    ASSERT_EQ(&sam3_name_map(*alone_file), &sam3_hf_names());
    WeightLoader from_official(official_file, sam3_official_names()), from_alone(alone_file, sam3_hf_names());
    for (const auto& [name, shape] : alone) {
        EXPECT_EQ(from_official.root().shape_of("detector_model." + name), shape) << name;
        EXPECT_EQ(from_alone.root().shape_of("detector_model." + name), shape) << name;
    }
}

TEST(Sam3Names, GgmlFilesProvideEveryHuggingFaceTensorInItsShape) {
    const auto file = file_with(read_shapes("sam3-ggml-names.txt"));
    const auto visual_file = file_with(read_shapes("sam3-visual-ggml-names.txt"));
    ASSERT_EQ(&sam3_name_map(*file), &sam3_ggml_names());
    ASSERT_EQ(&sam3_name_map(*visual_file), &sam3_ggml_names());
    WeightLoader whole(file, sam3_ggml_names()), visual(visual_file, sam3_ggml_names());
    for (const auto& [name, shape] : read_shapes("sam3-hf-names.txt")) {
        if (name == "detector_model.text_encoder.text_projection.weight") continue;  // dropped, and never read
        EXPECT_EQ(whole.root().shape_of(name), shape) << name;
        const bool is_visual =
            name.compare(0, 8, "tracker_") == 0 || name.compare(0, 39, "detector_model.vision_encoder.backbone.") == 0;
        EXPECT_EQ(visual.root().shape_of(name), is_visual ? std::optional<Shape>(shape) : std::nullopt) << name;
    }
}

TEST(Sam3Names, EachNameInAGgmlFileIsTheOneThatItsWriterMadeOfMetas) {
    for (const std::string& line : read_list("sam3-ggml-to-official.txt")) {
        const size_t arrow = line.find(" -> ");
        const std::vector<MappedName> found = map_name(sam3_ggml_names(), line.substr(0, arrow));
        const std::vector<MappedName> wanted = map_name(sam3_official_names(), line.substr(arrow + 4));
        ASSERT_EQ(found.size(), wanted.size()) << line;
        for (size_t i = 0; i < found.size(); ++i) {
            EXPECT_EQ(found[i].canonical, wanted[i].canonical) << line;
            EXPECT_EQ(found[i].part, wanted[i].part) << line;
            EXPECT_EQ(found[i].position, wanted[i].position) << line;
        }
    }
    EXPECT_EQ(map_name(sam3_ggml_names(), "text.text_projection").at(0).canonical,
              "detector_model.text_encoder.text_projection.weight");
}

// As mlx_sam3 converts Meta's names; shapes of convolutions differ, so only names are compared.
TEST(Sam3Names, EveryHashedNameIsFoundAndMeansWhatItsOriginalMeans) {
    size_t compared = 0;
    for (const auto& [name, shape] : read_shapes("sam3-official-names.txt")) {
        if (name.compare(0, 9, "detector.") != 0) continue;
        const std::vector<MappedName> wanted = map_name(sam3_official_names(), name);
        std::vector<std::string> originals{name.substr(9)};
        const size_t fused = originals[0].find("in_proj_");
        if (fused != std::string::npos) {
            const std::string stem = originals[0].substr(0, fused), rest = originals[0].substr(fused + 8);
            originals = {stem + "query_proj." + rest, stem + "key_proj." + rest, stem + "value_proj." + rest};
        }
        for (size_t i = 0; i < originals.size(); ++i) {
            const std::vector<MappedName> plain = map_name(sam3_mlx_names(), originals[i]);
            const std::vector<MappedName> hashed = map_name(sam3_mlx_names(), HashedNames::hash(originals[i]));
            ASSERT_EQ(hashed.size(), plain.size()) << originals[i];
            ASSERT_EQ(plain.size(), fused == std::string::npos ? wanted.size() : 1U) << originals[i];
            for (size_t k = 0; k < plain.size(); ++k) {
                EXPECT_EQ(hashed[k].canonical, plain[k].canonical);
                EXPECT_EQ(plain[k].canonical, wanted[i + k].canonical);
                ++compared;
            }
        }
    }
    EXPECT_GT(compared, 1200U);
}

TEST(Sam3Names, Sam31ProvidesWhatImagesNeed) {
    const auto shapes = read_shapes("sam3.1-official-names.txt");
    ASSERT_EQ(shapes.size(), 1623U);
    const auto file = file_with(shapes);
    ASSERT_EQ(&sam3_name_map(*file), &sam31_official_names());
    WeightLoader loader(file, sam31_official_names());
    size_t found = 0;
    for (const auto& [name, shape] : read_shapes("sam3-hf-names.txt")) {
        const bool is_video =
            name.compare(0, 14, "tracker_model.") == 0 && name.compare(0, 28, "tracker_model.prompt_encoder") != 0 &&
            name.compare(0, 26, "tracker_model.mask_decoder") != 0 &&
            name.find("shared_image_embedding") == name.npos && name.find("no_memory_embedding") == name.npos;
        const bool is_half_level = name.find("fpn_layers.3.") != name.npos;
        EXPECT_EQ(loader.root().shape_of(name), is_video || is_half_level ? std::nullopt : std::optional<Shape>(shape))
            << name;
        found += loader.root().shape_of(name) ? 1 : 0;
    }
    EXPECT_GT(found, 1500U);
    // Nothing is mapped to a name that no model has.
    const auto canonical = read_shapes("sam3-hf-names.txt");
    for (const auto& [name, shape] : shapes)
        for (const MappedName& mapped : map_name(sam31_official_names(), name))
            EXPECT_TRUE(canonical.count(mapped.canonical) == 1 || is_unused(mapped.canonical)) << name;
}

TEST(Sam3Names, HuggingFaceNamesStayAsTheyAre) {
    const std::map<std::string, Shape> shapes = read_shapes("sam3-hf-names.txt");
    for (const auto& [name, shape] : shapes) EXPECT_EQ(map_name(sam3_hf_names(), name).at(0).canonical, name);
    WeightLoader loader(file_with({{"tracker_model.shared_image_embedding.positional_embedding", {2, 128}}}),
                        sam3_hf_names());
    EXPECT_TRUE(loader.root().has("tracker_model.prompt_encoder.shared_embedding.positional_embedding"));
}

TEST(Sam3Names, EveryRuleOnUnusedWeightsMeetsSomething) {
    std::set<std::string> names;
    for (const auto& [name, shape] : read_shapes("sam3-hf-names.txt")) names.insert(name);
    for (const auto& [name, shape] : read_shapes("sam3-official-names.txt"))
        for (const MappedName& mapped : map_name(sam3_official_names(), name)) names.insert(mapped.canonical);
    for (const IgnoreRule& rule : sam3_unused_weights()) {
        if (rule.pattern == "**.rotary_emb.**") continue;  // only older files have it
        size_t met = 0;
        for (const std::string& name : names) met += match_name(rule.pattern, name) ? 1 : 0;
        EXPECT_GT(met, 0U) << rule.pattern;
        EXPECT_FALSE(rule.reason.empty());
    }
}

TEST(Sam3Names, OtherModelsAreRefused) {
    expect_contains(error_of([] {
                        sam3_name_map(*file_with({{"image_encoder.pos_embed", {1}}}));
                    }),
                    "expected a SAM 3 model, found other tensor names, such as 'image_encoder.pos_embed'");
}

}  // namespace
}  // namespace sam3::test
