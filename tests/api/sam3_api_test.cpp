// The public functions of sam3.h and sam3_c.h on a small random model: results, ownership and errors.
#include "sam3.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>

namespace {

std::string model_folder() { return std::string(SAM3_TEST_DATA) + "/models/sam3-a"; }

sam3_image picture(int width, int height) {
    sam3_image image;
    image.width = width;
    image.height = height;
    for (int i = 0; i < width * height * 3; ++i) image.data.push_back(static_cast<uint8_t>((i * 37 + i / 97) % 256));
    return image;
}

class Api : public testing::Test {
protected:
    void SetUp() override {
        params_.model_path = model_folder();
        params_.n_threads = 2;
        params_.behaviour = "hf";
        model_ = sam3_load_model(params_);
        ASSERT_TRUE(model_) << sam3_last_error();
        state_ = sam3_create_state(*model_, params_);
        ASSERT_TRUE(state_) << sam3_last_error();
    }
    sam3_pcs_params prompt(const std::string& text) const {
        sam3_pcs_params p;
        p.text_prompt = text;
        p.score_threshold = 0.05F;
        p.nms_threshold = 1.0F;
        return p;
    }
    sam3_params params_;
    std::shared_ptr<sam3_model> model_;
    sam3_state_ptr state_;
};

bool same(const sam3_result& a, const sam3_result& b) {
    if (a.detections.size() != b.detections.size() || a.presence_score != b.presence_score) return false;
    for (size_t i = 0; i < a.detections.size(); ++i)
        if (a.detections[i].score != b.detections[i].score || a.detections[i].mask.data != b.detections[i].mask.data)
            return false;
    return true;
}

TEST_F(Api, DefaultsAreThePromisedOnes) {
    const sam3_params load;
    EXPECT_EQ(load.n_threads, 4);
    EXPECT_TRUE(load.use_gpu);
    EXPECT_EQ(load.seed, 42);
    const sam3_pcs_params concept_prompt;
    EXPECT_EQ(concept_prompt.score_threshold, 0.5F);
    EXPECT_EQ(concept_prompt.nms_threshold, 0.1F);
    const sam3_pvs_params click;
    EXPECT_FALSE(click.use_box);
    EXPECT_FALSE(click.multimask);
}

TEST_F(Api, FindsInstancesWithMasksOfTheImagesSize) {
    ASSERT_TRUE(sam3_encode_image(*state_, *model_, picture(131, 97))) << sam3_last_error();
    const sam3_result result = sam3_segment_pcs(*state_, *model_, prompt("red circle"));
    ASSERT_FALSE(result.detections.empty()) << sam3_last_error();
    EXPECT_STREQ(sam3_last_error(), "");
    for (size_t i = 0; i < result.detections.size(); ++i) {
        const sam3_detection& d = result.detections[i];
        EXPECT_EQ(d.mask.width, 131);
        EXPECT_EQ(d.mask.height, 97);
        ASSERT_EQ(d.mask.data.size(), 131U * 97U);
        EXPECT_EQ(d.instance_id, static_cast<int>(i));
        for (const uint8_t value : d.mask.data) ASSERT_TRUE(value == 0 || value == 255);
        if (i > 0) {
            EXPECT_LE(d.score, result.detections[i - 1].score) << "best first";
        }
    }
}

TEST_F(Api, SeveralPromptsGiveWhatEachGivesAlone) {
    ASSERT_TRUE(sam3_encode_image(*state_, *model_, picture(131, 97)));
    sam3_pcs_params with_box = prompt("star");
    with_box.pos_exemplars.push_back({10, 10, 60, 50});
    with_box.neg_exemplars.push_back({70, 20, 120, 90});
    const std::vector<sam3_pcs_params> prompts = {prompt("red circle"),
                                                  prompt("every large dotted hexagon near the moon"), with_box};
    const std::vector<sam3_result> together = sam3_segment_pcs_batch(*state_, *model_, prompts);
    ASSERT_EQ(together.size(), 3U) << sam3_last_error();
    for (size_t i = 0; i < prompts.size(); ++i) {
        const sam3_result alone = sam3_segment_pcs(*state_, *model_, prompts[i]);
        ASSERT_EQ(together[i].detections.size(), alone.detections.size());
        for (size_t k = 0; k < alone.detections.size(); ++k)
            EXPECT_NEAR(together[i].detections[k].score, alone.detections[k].score, 1e-5F);
    }
}

TEST_F(Api, ImagesOfABatchGiveWhatEachGivesAlone) {
    const std::vector<sam3_image> images = {picture(131, 97), picture(60, 120)};
    ASSERT_TRUE(sam3_encode_images(*state_, *model_, images)) << sam3_last_error();
    sam3_pcs_params second = prompt("heart");
    second.image_index = 1;
    const sam3_result batched = sam3_segment_pcs(*state_, *model_, second);
    ASSERT_TRUE(sam3_encode_image(*state_, *model_, images[1]));
    const sam3_result alone = sam3_segment_pcs(*state_, *model_, prompt("heart"));
    ASSERT_EQ(batched.detections.size(), alone.detections.size());
    ASSERT_FALSE(alone.detections.empty());
    EXPECT_EQ(batched.detections[0].mask.width, 60);
    EXPECT_NEAR(batched.detections[0].score, alone.detections[0].score, 1e-5F);
}

TEST_F(Api, TheThreadCountNeverChangesAResult) {
    std::vector<sam3_result> results;
    for (const int threads : {1, 2, 3}) {
        params_.n_threads = threads;
        const sam3_state_ptr state = sam3_create_state(*model_, params_);
        ASSERT_TRUE(sam3_encode_image(*state, *model_, picture(131, 97)));
        results.push_back(sam3_segment_pcs(*state, *model_, prompt("red circle")));
    }
    EXPECT_TRUE(same(results[0], results[1]));
    EXPECT_TRUE(same(results[0], results[2]));
}

TEST_F(Api, LimitsAndSuppressionDropDetections) {
    ASSERT_TRUE(sam3_encode_image(*state_, *model_, picture(131, 97)));
    sam3_pcs_params p = prompt("red circle");
    const size_t all = sam3_segment_pcs(*state_, *model_, p).detections.size();
    ASSERT_GT(all, 2U);
    p.max_detections = 2;
    EXPECT_EQ(sam3_segment_pcs(*state_, *model_, p).detections.size(), 2U);
    p.max_detections = 0;
    p.nms_threshold = 0.0F;
    EXPECT_LT(sam3_segment_pcs(*state_, *model_, p).detections.size(), all);
}

TEST_F(Api, ClicksGiveOneMaskOrThreeBestFirst) {
    ASSERT_TRUE(sam3_encode_image(*state_, *model_, picture(131, 97)));
    sam3_pvs_params click;
    click.pos_points.push_back({60, 40});
    click.neg_points.push_back({5, 5});
    EXPECT_EQ(sam3_segment_pvs(*state_, *model_, click).detections.size(), 1U) << sam3_last_error();
    click.multimask = true;
    const sam3_result three = sam3_segment_pvs(*state_, *model_, click);
    ASSERT_EQ(three.detections.size(), 3U);
    EXPECT_GE(three.detections[0].iou_score, three.detections[1].iou_score);
    EXPECT_GE(three.detections[1].iou_score, three.detections[2].iou_score);
    EXPECT_EQ(three.detections[0].mask.data.size(), 131U * 97U);
    EXPECT_FALSE(sam3_is_visual_only(*model_));
}

TEST_F(Api, WrongInputIsASentenceAndLeavesTheStateUsable) {
    EXPECT_TRUE(sam3_segment_pcs(*state_, *model_, prompt("cat")).detections.empty());
    EXPECT_NE(std::string(sam3_last_error()).find("no image was encoded"), std::string::npos);
    ASSERT_TRUE(sam3_encode_image(*state_, *model_, picture(131, 97)));

    const auto error_of = [&](const sam3_pcs_params& p) {
        EXPECT_TRUE(sam3_segment_pcs(*state_, *model_, p).detections.empty());
        return std::string(sam3_last_error());
    };
    EXPECT_NE(error_of(prompt("  \t ")).find("nothing to look for"), std::string::npos);
    sam3_pcs_params p = prompt("star");
    p.pos_exemplars = {{500, 500, 600, 600}};
    EXPECT_NE(error_of(p).find("outside the image"), std::string::npos);
    p.pos_exemplars = {{50, 50, 50, 60}};
    EXPECT_NE(error_of(p).find("no area"), std::string::npos);
    p.pos_exemplars = {{NAN, 1, 2, 3}};
    EXPECT_NE(error_of(p).find("not a number"), std::string::npos);
    p.pos_exemplars.clear();
    p.pos_points = {{10, 10}};
    EXPECT_NE(error_of(p).find("point"), std::string::npos);
    p.pos_points.clear();
    p.score_threshold = 2.0F;
    EXPECT_NE(error_of(p).find("between 0 and 1"), std::string::npos);
    p = prompt("star");
    p.image_index = 3;
    EXPECT_NE(error_of(p).find("image 3"), std::string::npos);

    sam3_image broken;
    broken.width = 10;
    broken.height = 10;
    EXPECT_FALSE(sam3_encode_image(*state_, *model_, broken));
    EXPECT_STRNE(sam3_last_error(), "");
    ASSERT_TRUE(sam3_encode_image(*state_, *model_, picture(20, 30)));
    EXPECT_FALSE(sam3_segment_pcs(*state_, *model_, prompt("star")).detections.empty());
}

TEST_F(Api, ClickErrorsNameWhatIsWrong) {
    ASSERT_TRUE(sam3_encode_image(*state_, *model_, picture(131, 97)));
    sam3_pvs_params click;
    sam3_segment_pvs(*state_, *model_, click);
    EXPECT_NE(std::string(sam3_last_error()).find("nothing to segment"), std::string::npos);
    click.neg_points = {{4, 4}};
    sam3_segment_pvs(*state_, *model_, click);
    EXPECT_NE(std::string(sam3_last_error()).find("negative"), std::string::npos);
    click.pos_points = {{400, 4}};
    sam3_segment_pvs(*state_, *model_, click);
    EXPECT_NE(std::string(sam3_last_error()).find("outside the image"), std::string::npos);
}

TEST(ApiLoading, AMissingModelIsASentence) {
    sam3_params params;
    params.model_path = "/no/such/model";
    EXPECT_EQ(sam3_load_model(params), nullptr);
    EXPECT_NE(std::string(sam3_last_error()).find("/no/such/model"), std::string::npos);
    EXPECT_EQ(sam3_load_image("/no/such/image.png").width, 0);
    EXPECT_NE(std::string(sam3_last_error()).find("/no/such/image.png"), std::string::npos);
}

TEST(ApiLoading, AnUnknownPrecisionIsASentence) {
    sam3_params params;
    params.model_path = model_folder();
    params.precision = "int4";
    EXPECT_EQ(sam3_load_model(params), nullptr);
    EXPECT_NE(std::string(sam3_last_error()).find("there is no precision 'int4'"), std::string::npos)
        << sam3_last_error();
}

}  // namespace
