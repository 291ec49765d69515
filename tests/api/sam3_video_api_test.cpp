// The video functions of sam3.h on the model in the box and its clip.
#include "sam3.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>

namespace {

const std::string kRoot = std::filesystem::path(SAM3_TEST_DATA).parent_path().parent_path().string();
const std::string kClip = kRoot + "/assets/clip.mp4";

// Loading takes longer than a frame: one model for all.
std::shared_ptr<sam3_model> shared_model() {
    static const std::shared_ptr<sam3_model> model = [] {
        sam3_params params;
        params.model_path = kRoot + "/models/sam3-shapes.gguf";
        return sam3_load_model(params);
    }();
    return model;
}

class VideoApi : public testing::Test {
protected:
    void SetUp() override {
        model_ = shared_model();
        ASSERT_TRUE(model_) << sam3_last_error();
        sam3_params params;
        params.n_threads = 2;
        state_ = sam3_create_state(*model_, params);
    }
    sam3_image frame(int index) const { return sam3_decode_video_frame(kClip, index); }
    // A visual tracker with one click on the large square of the first frame.
    sam3_tracker_ptr clicked() {
        auto tracker = sam3_create_visual_tracker(*model_, {});
        EXPECT_TRUE(sam3_encode_image(*state_, *model_, frame(0)));
        sam3_pvs_params prompt;
        prompt.pos_points = {{228, 215}};
        EXPECT_EQ(sam3_tracker_add_instance(*tracker, *state_, *model_, prompt), 0) << sam3_last_error();
        return tracker;
    }
    static int64_t area(const sam3_result& result) {
        return result.detections.empty()
                   ? 0
                   : std::count(result.detections[0].mask.data.begin(), result.detections[0].mask.data.end(), 255);
    }
    static bool same(const sam3_result& a, const sam3_result& b) {
        if (a.frame_index != b.frame_index || a.detections.size() != b.detections.size()) return false;
        for (size_t i = 0; i < a.detections.size(); ++i)
            if (a.detections[i].instance_id != b.detections[i].instance_id ||
                a.detections[i].score != b.detections[i].score ||
                a.detections[i].mask.data != b.detections[i].mask.data)
                return false;
        return true;
    }

    std::shared_ptr<sam3_model> model_;
    sam3_state_ptr state_;
};

TEST(VideoFiles, AreDescribedAndReadByFrameNumber) {
    const sam3_video_info info = sam3_get_video_info(kClip);
    EXPECT_EQ(info.width, 336);
    EXPECT_EQ(info.height, 336);
    EXPECT_EQ(info.n_frames, 24);
    EXPECT_FLOAT_EQ(info.fps, 12.0F);
    const sam3_image late = sam3_decode_video_frame(kClip, 17);
    const sam3_image early = sam3_decode_video_frame(kClip, 3);
    EXPECT_NE(late.data, early.data);
    EXPECT_EQ(sam3_decode_video_frame(kClip, 17).data, late.data);
    EXPECT_EQ(sam3_decode_video_frame(kClip, 24).width, 0);
    EXPECT_NE(std::string(sam3_last_error()).find("the video has 24 frames"), std::string::npos);
    EXPECT_EQ(sam3_get_video_info("absent.mp4").width, 0);
    EXPECT_NE(std::string(sam3_last_error()).find("absent.mp4"), std::string::npos);
}

TEST_F(VideoApi, DefaultsAreThePromisedOnes) {
    const sam3_video_params params;
    EXPECT_EQ(params.score_threshold, 0.5F);
    EXPECT_EQ(params.nms_threshold, 0.1F);
    EXPECT_EQ(params.assoc_iou_threshold, 0.1F);
    EXPECT_EQ(params.hotstart_delay, 15);
    EXPECT_EQ(params.max_keep_alive, 30);
    EXPECT_EQ(params.recondition_every, 16);
    EXPECT_EQ(params.fill_hole_area, 16);
}

TEST_F(VideoApi, FollowsWhatIsPointedAt) {
    auto tracker = clicked();
    EXPECT_EQ(sam3_tracker_frame_index(*tracker), 0);
    for (int i = 1; i < 4; ++i) {
        const sam3_result result = sam3_propagate_frame(*tracker, *state_, *model_, frame(i));
        ASSERT_EQ(result.detections.size(), 1U) << sam3_last_error();
        EXPECT_EQ(result.frame_index, i);
        EXPECT_EQ(result.detections[0].instance_id, 0);
        EXPECT_GT(area(result), 3000);
        EXPECT_LT(area(result), 9000);
    }
    EXPECT_EQ(sam3_tracker_frame_index(*tracker), 3);
    EXPECT_EQ(sam3_propagate_to(*tracker, *state_, *model_, frame(2), 2, true).frame_index, 2);
    sam3_tracker_reset(*tracker);
    EXPECT_EQ(sam3_tracker_frame_index(*tracker), -1);
    EXPECT_TRUE(sam3_propagate_frame(*tracker, *state_, *model_, frame(0)).detections.empty());
    EXPECT_NE(std::string(sam3_last_error()).find("no object"), std::string::npos);
}

TEST_F(VideoApi, ACorrectionChangesTheFollowingMasks) {
    auto plain = clicked();
    sam3_propagate_frame(*plain, *state_, *model_, frame(1));
    const sam3_result untouched = sam3_propagate_frame(*plain, *state_, *model_, frame(2));
    auto corrected = clicked();
    sam3_propagate_frame(*corrected, *state_, *model_, frame(1));
    ASSERT_TRUE(sam3_refine_instance(*corrected, *state_, *model_, 0, {{53, 82}}, {{228, 215}})) << sam3_last_error();
    const sam3_result moved = sam3_propagate_frame(*corrected, *state_, *model_, frame(2));
    EXPECT_FALSE(same(untouched, moved));
    EXPECT_FALSE(sam3_refine_instance(*corrected, *state_, *model_, 5, {{53, 82}}, {}));
    EXPECT_NE(std::string(sam3_last_error()).find("no instance 5"), std::string::npos);
}

TEST_F(VideoApi, SeveralInstancesComeAndGo) {
    auto tracker = clicked();
    sam3_pvs_params second;
    second.box = {20, 55, 90, 110};
    second.use_box = true;
    EXPECT_EQ(sam3_tracker_add_instance(*tracker, *state_, *model_, second), 1) << sam3_last_error();
    EXPECT_EQ(sam3_propagate_frame(*tracker, *state_, *model_, frame(1)).detections.size(), 2U);
    EXPECT_TRUE(sam3_tracker_remove_instance(*tracker, 0));
    EXPECT_FALSE(sam3_tracker_remove_instance(*tracker, 0));
    const sam3_result rest = sam3_propagate_frame(*tracker, *state_, *model_, frame(2));
    ASSERT_EQ(rest.detections.size(), 1U);
    EXPECT_EQ(rest.detections[0].instance_id, 1);
}

TEST_F(VideoApi, FindsAndFollowsAConcept) {
    sam3_video_params params;
    params.text_prompt = "red square";
    auto tracker = sam3_create_tracker(*model_, params);
    ASSERT_TRUE(tracker) << sam3_last_error();
    for (int i = 0; i < 3; ++i) {
        const sam3_result result = sam3_track_frame(*tracker, *state_, *model_, frame(i));
        EXPECT_EQ(result.frame_index, i) << sam3_last_error();
        ASSERT_FALSE(result.detections.empty());
        EXPECT_EQ(result.detections[0].label, "red square");
    }
    EXPECT_TRUE(sam3_propagate_frame(*tracker, *state_, *model_, frame(3)).detections.empty());
    EXPECT_NE(std::string(sam3_last_error()).find("sam3_track_frame"), std::string::npos);
    EXPECT_TRUE(sam3_tracker_add_text(*tracker, "hexagon")) << sam3_last_error();
    EXPECT_FALSE(sam3_tracker_remove_text(*tracker, "star"));
    EXPECT_TRUE(sam3_tracker_remove_text(*tracker, "red square")) << sam3_last_error();
    const sam3_result hexagons = sam3_track_frame(*tracker, *state_, *model_, frame(3));
    ASSERT_FALSE(hexagons.detections.empty());
    for (const sam3_detection& d : hexagons.detections) EXPECT_EQ(d.label, "hexagon");
}

TEST_F(VideoApi, DelayedResultsComeInOrderAndAllOfThem) {
    sam3_video_params params;
    params.text_prompt = "red square";
    params.hotstart_delay = 3;
    params.delayed = true;
    auto tracker = sam3_create_tracker(*model_, params);
    ASSERT_TRUE(tracker) << sam3_last_error();
    std::vector<int> frames;
    for (int i = 0; i < 5; ++i) {
        const sam3_result result = sam3_track_frame(*tracker, *state_, *model_, frame(i));
        if (result.frame_index >= 0) frames.push_back(result.frame_index);
    }
    for (const sam3_result& result : sam3_tracker_finish(*tracker)) frames.push_back(result.frame_index);
    EXPECT_EQ(frames, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST_F(VideoApi, ASavedTrackerGoesOnExactly) {
    const std::string path = testing::TempDir() + "tracker.session";
    auto first = clicked();
    sam3_propagate_frame(*first, *state_, *model_, frame(1));
    ASSERT_TRUE(sam3_tracker_save(*first, path)) << sam3_last_error();
    auto second = sam3_create_visual_tracker(*model_, {});
    ASSERT_TRUE(sam3_tracker_restore(*second, *state_, path)) << sam3_last_error();
    EXPECT_EQ(sam3_tracker_frame_index(*second), 1);
    const sam3_result expected = sam3_propagate_frame(*first, *state_, *model_, frame(2));
    EXPECT_TRUE(same(expected, sam3_propagate_frame(*second, *state_, *model_, frame(2))));
    auto concepts = sam3_create_tracker(*model_, [] {
        sam3_video_params params;
        params.text_prompt = "red square";
        return params;
    }());
    EXPECT_FALSE(sam3_tracker_restore(*concepts, *state_, path)) << "another kind of session";
    std::remove(path.c_str());
}

TEST_F(VideoApi, ModelsWithoutMemoryAndEmptyPromptsAreRefusedWithASentence) {
    EXPECT_FALSE(sam3_create_tracker(*model_, {}));
    EXPECT_NE(std::string(sam3_last_error()).find("text_prompt"), std::string::npos);
    sam3_params params;
    params.model_path = std::string(SAM3_TEST_DATA) + "/models/sam1-b";
    const auto sam1 = sam3_load_model(params);
    ASSERT_TRUE(sam1) << sam3_last_error();
    EXPECT_FALSE(sam3_create_visual_tracker(*sam1, {}));
    EXPECT_NE(std::string(sam3_last_error()).find("no memory"), std::string::npos);
}

}  // namespace
