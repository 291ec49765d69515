// Automatic mask generation against transformers on small models, and its parts on made masks.
#include "engine/mask_generation.h"
#include "mask/support.h"
#include "media/image_io.h"
#include "support/goldens.h"
#include "support/models.h"
#include "util/error.h"

#include <nlohmann/json.hpp>

namespace sam3 {
namespace {

std::string root_path(const std::string& name) { return test::data_path("../../" + name); }

Image scene_of(const test::Golden& golden) {
    const Image scene = read_image(root_path("assets/" + golden.text("scene") + ".png"));
    const auto box = nlohmann::json::parse(golden.text("crop"));
    if (box.is_null()) return scene;
    Image part(box[2].get<int>() - box[0].get<int>(), box[3].get<int>() - box[1].get<int>(), scene.channels);
    for (int y = 0; y < part.height; ++y)
        std::memcpy(part.row(y), scene.at(box[0].get<int>(), box[1].get<int>() + y), part.row_bytes());
    return part;
}

MaskGenerationOptions options_of(const test::Golden& golden) {
    const auto whole = [&](const char* key) { return std::stoi(golden.text(key)); };
    const auto single = [&](const char* key) { return std::stof(golden.text(key)); };
    MaskGenerationOptions options;
    options.points_per_side = whole("points_per_side");
    options.points_per_batch = whole("points_per_batch");
    options.pred_iou_thresh = single("pred_iou_thresh");
    options.stability_score_thresh = single("stability_score_thresh");
    options.stability_score_offset = single("stability_score_offset");
    options.box_nms_thresh = golden.number("box_nms_thresh");
    options.crop_n_layers = whole("crop_n_layers");
    options.crop_nms_thresh = golden.number("crop_nms_thresh");
    options.crop_overlap_ratio = golden.number("crop_overlap_ratio");
    options.crop_n_points_downscale_factor = whole("crop_n_points_downscale_factor");
    return options;
}

ImageSession session_for(const test::Golden& golden) {
    return {test::load_model({.path = root_path(golden.text("model")), .behaviour = "hf"}), 1};
}

// Boxes as the golden has them: the last pixel, not the one past it.
PixelBox box_at(const Tensor& boxes, size_t row, int past) {
    const auto at = [&](size_t i) { return static_cast<int>(boxes.data<float>()[4 * row + i]); };
    return {at(0), at(1), at(2) + past, at(3) + past};
}

int64_t differing_pixels(const Rle& a, const Rle& b) {
    return rle_area(a) + rle_area(b) - 2 * rle_intersection_area(a, b);
}

class MaskGenerationParity : public testing::TestWithParam<std::string> {
protected:
    MaskGenerationParity() : golden_(test::data_path("mask_generation/" + GetParam() + ".safetensors")) {}

    std::vector<Rle> golden_masks(int width, int height) const {
        const Tensor runs = golden_.tensor("runs");
        const std::vector<uint8_t> bytes = golden_.bytes("counts");
        std::vector<uint32_t> all(bytes.size() / sizeof(uint32_t));
        std::memcpy(all.data(), bytes.data(), bytes.size());
        std::vector<Rle> masks;
        auto start = all.begin();
        for (int64_t i = 0; i < runs.numel(); ++i) {
            const auto end = start + static_cast<std::ptrdiff_t>(runs.data<float>()[i]);
            masks.push_back(rle_from_counts({start, end}, width, height));
            start = end;
        }
        return masks;
    }

    test::Golden golden_;
};

TEST_P(MaskGenerationParity, FindsTheMasksOfTheReferenceInItsOrder) {
    const Image image = scene_of(golden_);
    ImageSession session = session_for(golden_);
    const std::vector<GeneratedMask> found = generate_masks(session, image, options_of(golden_)).masks;
    const std::vector<Rle> masks = golden_masks(image.width, image.height);
    const Tensor boxes = golden_.tensor("boxes"), crops = golden_.tensor("crops"), points = golden_.tensor("points");
    const Tensor iou = golden_.tensor("iou"), stability = golden_.tensor("stability"), close = golden_.tensor("close");
    ASSERT_EQ(found.size(), masks.size());
    for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_LE(differing_pixels(found[i].segmentation, masks[i]), static_cast<int64_t>(close.data<float>()[i]));
        EXPECT_EQ(found[i].box, box_at(boxes, i, 1)) << i;
        EXPECT_EQ(found[i].crop_box, box_at(crops, i, 0)) << i;
        EXPECT_NEAR(found[i].predicted_iou, iou.data<float>()[i], 1e-4F) << i;
        EXPECT_NEAR(found[i].stability_score, stability.data<float>()[i], 1e-4F) << i;
        EXPECT_NEAR(found[i].point.x, points.data<float>()[2 * i], 1e-3F) << i;
        EXPECT_NEAR(found[i].point.y, points.data<float>()[2 * i + 1], 1e-3F) << i;
    }
}

INSTANTIATE_TEST_SUITE_P(SmallModels, MaskGenerationParity,
                         testing::Values("sam1", "sam1-crops", "sam3", "sam3-resized", "sam3-crops"),
                         [](const auto& test) {
                             std::string name = test.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

TEST(MaskGeneration, BatchSizeDoesNotChangeTheResult) {
    const test::Golden golden(test::data_path("mask_generation/sam3-resized.safetensors"));
    const Image image = scene_of(golden);
    ImageSession session = session_for(golden);
    MaskGenerationOptions options = options_of(golden);
    const std::vector<GeneratedMask> expected = generate_masks(session, image, options).masks;
    options.points_per_batch = 49;
    size_t calls = 0;
    const std::vector<GeneratedMask> found =
        generate_masks(session, image, options, [&](const auto&) { ++calls; }).masks;
    EXPECT_EQ(calls, 1U);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].segmentation, expected[i].segmentation);
        EXPECT_EQ(found[i].predicted_iou, expected[i].predicted_iou);
    }
}

TEST(MaskGeneration, ThresholdsOfZeroLeaveEveryMaskThatHasPixels) {
    const test::Golden golden(test::data_path("mask_generation/sam3-resized.safetensors"));
    const Image image = scene_of(golden);
    ImageSession session = session_for(golden);
    MaskGenerationOptions options;
    options.points_per_side = 3;
    options.pred_iou_thresh = options.stability_score_thresh = 0;
    options.box_nms_thresh = 1;
    const std::vector<GeneratedMask> all = generate_masks(session, image, options).masks;
    EXPECT_GT(all.size(), 9U);
    EXPECT_LE(all.size(), 27U);
    for (const GeneratedMask& mask : all) EXPECT_GT(rle_area(mask.segmentation), 0);
}

TEST(MaskGeneration, WrongOptionsAreSentences) {
    ImageSession session(test::load_model({.path = test::data_path("models/sam1-b"), .behaviour = ""}), 1);
    const Image image(40, 30, 3);
    const auto fails_with = [&](const char* text, auto change) {
        MaskGenerationOptions options;
        change(options);
        try {
            generate_masks(session, image, options);
            ADD_FAILURE() << "expected '" << text << "'";
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
        }
    };
    fails_with("not a number", [](auto& options) { options.box_nms_thresh = NAN; });
    fails_with("points-per-side", [](auto& options) { options.points_per_side = 0; });
    fails_with("points-per-batch", [](auto& options) { options.points_per_batch = -1; });
    fails_with("crop-n-layers", [](auto& options) { options.crop_n_layers = 40; });
    fails_with("too small", [](auto& options) { options.crop_n_layers = 7; });
    fails_with("crop-overlap-ratio", [](auto& options) { options.crop_overlap_ratio = 1.5; });
    fails_with("stability-score-offset", [](auto& options) { options.stability_score_offset = NAN; });
    fails_with("has no points", [](auto& options) {
        options.crop_n_layers = 2;
        options.crop_n_points_downscale_factor = 6;
    });
}

TEST(CropBoxes, CoverTheImageAndOverlap) {
    // The numbers are those of the reference for 452 x 301 and 40 %.
    const std::vector<CropBox> crops = generate_crop_boxes(452, 301, 2, 0.4);
    ASSERT_EQ(crops.size(), 1U + 4U + 16U);
    EXPECT_EQ(crops[0].box, (PixelBox{0, 0, 452, 301}));
    EXPECT_EQ(crops[1].box, (PixelBox{0, 0, 286, 211}));
    EXPECT_EQ(crops[2].box, (PixelBox{0, 91, 286, 301}));
    EXPECT_EQ(crops[4].box, (PixelBox{166, 91, 452, 301}));
    EXPECT_EQ(crops[20].layer, 2);
    EXPECT_EQ(crops[20].box.x1, 452);
    EXPECT_EQ(crops[20].box.y1, 301);
    EXPECT_THROW(generate_crop_boxes(3, 300, 2, 0.0), Error);
}

GeneratedMask made(const std::vector<std::string>& rows, float iou) {
    const Mask mask = test::draw(rows);
    GeneratedMask out;
    out.segmentation = rle_encode(mask);
    out.box = mask_bounds(mask);
    out.predicted_iou = iou;
    return out;
}

TEST(SmallRegions, HolesAreFilledIslandsRemovedAndBoxesFollow) {
    std::vector<GeneratedMask> masks = {made({"#####.....",  //
                                              "#.###.....",  //
                                              "#####....#",  //
                                              "#####.....",  //
                                              ".........."},
                                             0.9F)};
    remove_small_regions(masks, 3, 0.7);
    ASSERT_EQ(masks.size(), 1U);
    EXPECT_EQ(rle_decode(masks[0].segmentation), test::draw({"#####.....",  //
                                                             "#####.....",  //
                                                             "#####.....",  //
                                                             "#####.....",  //
                                                             ".........."}));
    EXPECT_EQ(masks[0].box, (PixelBox{0, 0, 5, 4}));
}

TEST(SmallRegions, AMaskThatNeededNoChangeWinsOverItsMendedDouble) {
    const std::vector<std::string> clean = {"#####.....", "#####.....", "#####.....", "#####.....", ".........."};
    const std::vector<std::string> torn = {"#####....#", "#####.....", "#####.....", "#####.....", ".........."};
    const std::vector<std::string> other = {"..........", ".........#", ".......###", ".......###", ".......###"};
    std::vector<GeneratedMask> masks = {made(torn, 0.99F), made(clean, 0.9F), made(other, 0.8F)};
    remove_small_regions(masks, 2, 0.7);
    ASSERT_EQ(masks.size(), 2U);
    EXPECT_EQ(masks[0].predicted_iou, 0.9F);
    EXPECT_EQ(masks[1].predicted_iou, 0.8F);
    EXPECT_EQ(rle_decode(masks[1].segmentation), test::draw(other));
}

}  // namespace
}  // namespace sam3
