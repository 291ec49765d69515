// sam3_c.h beside sam3.h, on the model in the box: the same answers, and a sentence for everything that is NULL.
#include "sam3.h"
#include "sam3_c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace {

const std::string kRoot = std::filesystem::path(SAM3_TEST_DATA).parent_path().parent_path().string();
const std::string kModel = kRoot + "/models/sam3-shapes.gguf";
const std::string kClip = kRoot + "/assets/clip.mp4";

template <auto kFree>
struct Freed {
    template <typename T>
    void operator()(T* handle) const {
        kFree(handle);
    }
};
using Model = std::unique_ptr<sam3_c_model, Freed<sam3_c_free_model>>;
using Session = std::unique_ptr<sam3_c_session, Freed<sam3_c_free_session>>;
using Result = std::unique_ptr<sam3_c_result, Freed<sam3_c_free_result>>;
using Picture = std::unique_ptr<sam3_c_picture, Freed<sam3_c_free_picture>>;
using Tracker = std::unique_ptr<sam3_c_tracker, Freed<sam3_c_free_tracker>>;

testing::AssertionResult said(const char* part) {
    if (std::string(sam3_c_last_error()).find(part) != std::string::npos) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "'" << sam3_c_last_error() << "' does not say '" << part << "'";
}

// Loading takes longer than a frame: one model for all.
struct Models {
    Model in_c{sam3_c_load_model_on(kModel.c_str(), nullptr, "cpu", "f32")};
    std::shared_ptr<sam3_model> in_cpp = [] {
        sam3_params params;
        params.model_path = kModel;
        params.device = "cpu";
        params.precision = "f32";
        return sam3_load_model(params);
    }();
};

class CApi : public testing::Test {
protected:
    void SetUp() override {
        static const Models models;
        ASSERT_NE(models.in_c, nullptr) << sam3_c_last_error();
        c_model_ = models.in_c.get();
        model_ = models.in_cpp;
        session_.reset(sam3_c_create_session(c_model_, 2));
        ASSERT_NE(session_, nullptr) << sam3_c_last_error();
        sam3_params params;
        params.n_threads = 2;
        state_ = sam3_create_state(*model_, params);
    }

    static sam3_image frame(int index) { return sam3_decode_video_frame(kClip, index); }
    void encode(int index) {
        const sam3_image image = frame(index);
        ASSERT_EQ(sam3_c_encode_rgb(session_.get(), image.data.data(), image.width, image.height), 1);
        ASSERT_TRUE(sam3_encode_image(*state_, *model_, image));
    }
    static Result track(const Tracker& tracker, int index) {
        const sam3_image image = frame(index);
        return Result(sam3_c_track_frame(tracker.get(), image.data.data(), image.width, image.height));
    }
    static Result propagate(const Tracker& tracker, int index) {
        const sam3_image image = frame(index);
        return Result(sam3_c_propagate_frame(tracker.get(), image.data.data(), image.width, image.height));
    }
    // A visual tracker that was pointed at the large square of the first frame.
    Tracker clicked() {
        encode(0);
        Tracker tracker(sam3_c_create_visual_tracker(session_.get(), nullptr));
        const sam3_c_clicks clicks{&kSquare, nullptr, 1, nullptr};
        EXPECT_EQ(sam3_c_add_instance(tracker.get(), &clicks), 0) << sam3_c_last_error();
        return tracker;
    }
    static void expect_same(const Result& in_c, const sam3_result& in_cpp) {
        ASSERT_NE(in_c, nullptr) << sam3_c_last_error();
        EXPECT_EQ(sam3_c_frame(in_c.get()), in_cpp.frame_index);
        EXPECT_EQ(sam3_c_presence(in_c.get()), in_cpp.presence_score);
        ASSERT_EQ(sam3_c_count(in_c.get()), static_cast<int>(in_cpp.detections.size()));
        for (int i = 0; i < sam3_c_count(in_c.get()); ++i) {
            const sam3_c_instance a = sam3_c_detection(in_c.get(), i);
            const sam3_detection& b = in_cpp.detections[static_cast<size_t>(i)];
            EXPECT_EQ(a.score, b.score);
            EXPECT_EQ(a.object_score, b.mask.obj_score);
            EXPECT_EQ(a.id, b.instance_id);
            EXPECT_EQ(a.label, b.label);
            EXPECT_EQ(a.box.x0, b.box.x0);
            EXPECT_EQ(a.box.y1, b.box.y1);
            ASSERT_EQ(static_cast<size_t>(a.width) * static_cast<size_t>(a.height), b.mask.data.size());
            EXPECT_TRUE(std::equal(b.mask.data.begin(), b.mask.data.end(), a.mask));
        }
    }

    static constexpr sam3_c_point kSquare{228, 215};
    const sam3_c_model* c_model_ = nullptr;
    std::shared_ptr<sam3_model> model_;
    Session session_;
    sam3_state_ptr state_;
};

TEST_F(CApi, TextAndExemplarsGiveWhatCppGives) {
    encode(0);
    sam3_pcs_params params;
    params.text_prompt = "red square";
    params.score_threshold = 0.3F;
    const sam3_result by_text = sam3_segment_pcs(*state_, *model_, params);
    ASSERT_FALSE(by_text.detections.empty());
    expect_same(Result(sam3_c_segment_text(session_.get(), "red square", 0.3F)), by_text);
    EXPECT_EQ(sam3_c_is_visual_only(c_model_), 0);

    const sam3_box found = by_text.detections[0].box;
    params.pos_exemplars = {found};
    params.neg_exemplars = {{20, 55, 90, 110}};
    const sam3_c_box boxes[] = {{20, 55, 90, 110}, {found.x0, found.y0, found.x1, found.y1}};
    const uint8_t positive[] = {0, 1};
    expect_same(Result(sam3_c_segment_concept(session_.get(), "red square", boxes, positive, 2, 0.3F)),
                sam3_segment_pcs(*state_, *model_, params));
}

TEST_F(CApi, ASessionOutlivesItsModel) {
    Model model(sam3_c_load_model((std::string(SAM3_TEST_DATA) + "/models/sam3-a").c_str(), "hf"));
    ASSERT_NE(model, nullptr) << sam3_c_last_error();
    const Session session(sam3_c_create_session(model.get(), 2));
    ASSERT_NE(session, nullptr) << sam3_c_last_error();
    model.reset();
    const sam3_image image = frame(0);
    ASSERT_EQ(sam3_c_encode_rgb(session.get(), image.data.data(), image.width, image.height), 1);
    const Result result(sam3_c_segment_text(session.get(), "red circle", 0.05F));
    ASSERT_NE(result, nullptr) << sam3_c_last_error();
    EXPECT_GT(sam3_c_count(result.get()), 0);
    EXPECT_EQ(sam3_c_detection(result.get(), 0).width, image.width);
    EXPECT_EQ(sam3_c_detection(result.get(), 1000).mask, nullptr);
    EXPECT_EQ(sam3_c_segment_text(session.get(), "", 0.5F), nullptr);
    EXPECT_TRUE(said("nothing to look for"));
}

TEST_F(CApi, WhatIsNotThereIsASentence) {
    EXPECT_EQ(sam3_c_load_model("/no/such/model", nullptr), nullptr);
    EXPECT_TRUE(said("/no/such/model"));
    EXPECT_EQ(sam3_c_load_model(kModel.c_str(), "meta"), nullptr);
    EXPECT_TRUE(said("meta"));
    EXPECT_EQ(sam3_c_load_picture("/no/such/image.png"), nullptr);
    EXPECT_TRUE(said("/no/such/image.png"));
    EXPECT_EQ(sam3_c_load_frame(kClip.c_str(), 24), nullptr);
    EXPECT_TRUE(said("24 frames"));
    const sam3_c_clicks clicks{&kSquare, nullptr, 1, nullptr};
    EXPECT_EQ(sam3_c_segment_clicks(session_.get(), &clicks, 0), nullptr);
    EXPECT_TRUE(said("image"));  // none is encoded yet
    const Tracker tracker(sam3_c_create_visual_tracker(session_.get(), nullptr));
    EXPECT_EQ(sam3_c_add_instance(tracker.get(), &clicks), -1);
    EXPECT_TRUE(said("no frame to point at"));
    EXPECT_EQ(sam3_c_restore_tracker(tracker.get(), "/no/such/file"), 0);
    EXPECT_TRUE(said("/no/such/file"));
}

TEST_F(CApi, ClicksGiveWhatCppGives) {
    encode(0);
    sam3_pvs_params params;
    params.pos_points = {{kSquare.x, kSquare.y}};
    params.neg_points = {{53, 82}};
    const sam3_c_point points[] = {{53, 82}, kSquare};
    const uint8_t positive[] = {0, 1};
    sam3_c_clicks clicks{points, positive, 2, nullptr};
    expect_same(Result(sam3_c_segment_clicks(session_.get(), &clicks, 0)), sam3_segment_pvs(*state_, *model_, params));
    params.multimask = true;
    params.box = {190, 170, 270, 260};
    params.use_box = true;
    const sam3_c_box box{190, 170, 270, 260};
    clicks.box = &box;
    const Result three(sam3_c_segment_clicks(session_.get(), &clicks, 1));
    EXPECT_EQ(sam3_c_count(three.get()), 3);
    expect_same(three, sam3_segment_pvs(*state_, *model_, params));
}

TEST_F(CApi, MasksAreWrittenAndPicturesRead) {
    encode(0);
    const std::string path = testing::TempDir() + "sam3-c-mask.png";
    const Result result(sam3_c_segment_text(session_.get(), "red square", 0.3F));
    ASSERT_EQ(sam3_c_save_mask(result.get(), 0, path.c_str()), 1) << sam3_c_last_error();
    const Picture picture(sam3_c_load_picture(path.c_str()));
    ASSERT_NE(picture, nullptr) << sam3_c_last_error();
    const sam3_c_instance first = sam3_c_detection(result.get(), 0);
    ASSERT_EQ(sam3_c_width(picture.get()), first.width);
    ASSERT_EQ(sam3_c_height(picture.get()), first.height);
    const uint8_t* pixels = sam3_c_pixels(picture.get());
    for (int i = 0; i < first.width * first.height; ++i) ASSERT_EQ(pixels[3 * i], first.mask[i]);
    std::remove(path.c_str());
    EXPECT_EQ(sam3_c_save_mask(result.get(), 99, path.c_str()), 0);
    EXPECT_TRUE(said("there is no instance 99"));

    const Picture late(sam3_c_load_frame(kClip.c_str(), 17));
    ASSERT_NE(late, nullptr) << sam3_c_last_error();
    const sam3_image same = frame(17);
    EXPECT_TRUE(std::equal(same.data.begin(), same.data.end(), sam3_c_pixels(late.get())));
    const sam3_c_video info = sam3_c_video_info(kClip.c_str());
    EXPECT_EQ(info.width, 336);
    EXPECT_EQ(info.frames, 24);
    EXPECT_FLOAT_EQ(info.frames_per_second, 12.0F);
}

TEST_F(CApi, ConceptsAreFollowedAsInCpp) {
    sam3_video_params params;
    params.text_prompt = "red square";
    params.more_text_prompts = {"hexagon"};
    params.new_instance_threshold = 0.6F;
    const auto cpp = sam3_create_tracker(*model_, params);
    sam3_c_video_options options = sam3_c_default_video_options();
    options.new_instance_threshold = 0.6F;
    const char* texts[] = {"red square", "hexagon"};
    const Tracker tracker(sam3_c_create_tracker(session_.get(), texts, 2, &options));
    ASSERT_NE(tracker, nullptr) << sam3_c_last_error();
    session_.reset();  // the tracker holds what it needs
    for (int i = 0; i < 3; ++i) expect_same(track(tracker, i), sam3_track_frame(*cpp, *state_, *model_, frame(i)));
    EXPECT_EQ(sam3_c_remove_text(tracker.get(), "star"), 0);
    EXPECT_TRUE(said("star"));
    EXPECT_EQ(sam3_c_remove_text(tracker.get(), "red square"), 1);
    EXPECT_EQ(sam3_c_add_text(tracker.get(), "circle"), 1);
    sam3_tracker_remove_text(*cpp, "red square");
    sam3_tracker_add_text(*cpp, "circle");
    expect_same(track(tracker, 3), sam3_track_frame(*cpp, *state_, *model_, frame(3)));
    EXPECT_EQ(sam3_c_current_frame(tracker.get()), 3);
}

TEST_F(CApi, FramesThatWaitComeOneByOneAtTheEnd) {
    sam3_c_video_options options = sam3_c_default_video_options();
    options.hotstart_delay = 3;
    options.delayed = 1;
    const char* text = "red square";
    const Tracker tracker(sam3_c_create_tracker(session_.get(), &text, 1, &options));
    ASSERT_NE(tracker, nullptr) << sam3_c_last_error();
    std::vector<int> frames;
    for (int i = 0; i < 5; ++i) {
        const Result result = track(tracker, i);
        ASSERT_NE(result, nullptr) << sam3_c_last_error();
        if (sam3_c_frame(result.get()) >= 0) frames.push_back(sam3_c_frame(result.get()));
    }
    EXPECT_LT(frames.size(), 5U);
    while (const Result result{sam3_c_track_rest(tracker.get())}) frames.push_back(sam3_c_frame(result.get()));
    EXPECT_STREQ(sam3_c_last_error(), "");
    EXPECT_EQ(frames, (std::vector<int>{0, 1, 2, 3, 4}));
    EXPECT_EQ(sam3_c_track_rest(tracker.get()), nullptr);
}

TEST_F(CApi, ObjectsAreFollowedCorrectedAndSavedAsInCpp) {
    const Tracker tracker = clicked();
    const auto cpp = sam3_create_visual_tracker(*model_, {});
    sam3_pvs_params square;
    square.pos_points = {{kSquare.x, kSquare.y}};
    ASSERT_EQ(sam3_tracker_add_instance(*cpp, *state_, *model_, square), 0);
    const sam3_c_box around{20, 55, 90, 110};
    const sam3_c_clicks second{nullptr, nullptr, 0, &around};
    EXPECT_EQ(sam3_c_add_instance(tracker.get(), &second), 1) << sam3_c_last_error();
    sam3_pvs_params box;
    box.box = {20, 55, 90, 110};
    box.use_box = true;
    ASSERT_EQ(sam3_tracker_add_instance(*cpp, *state_, *model_, box), 1);
    expect_same(propagate(tracker, 1), sam3_propagate_frame(*cpp, *state_, *model_, frame(1)));

    const sam3_c_point points[] = {{53, 82}, kSquare};
    const uint8_t positive[] = {1, 0};
    const sam3_c_clicks correction{points, positive, 2, nullptr};
    ASSERT_EQ(sam3_c_refine_instance(tracker.get(), 0, &correction), 1) << sam3_c_last_error();
    ASSERT_TRUE(sam3_refine_instance(*cpp, *state_, *model_, 0, {{53, 82}}, {{228, 215}}));
    EXPECT_EQ(sam3_c_refine_instance(tracker.get(), 0, &second), 0);
    EXPECT_TRUE(said("by points"));
    EXPECT_EQ(sam3_c_remove_instance(tracker.get(), 1), 1);
    EXPECT_EQ(sam3_c_remove_instance(tracker.get(), 1), 0);
    sam3_tracker_remove_instance(*cpp, 1);

    const std::string path = testing::TempDir() + "sam3-c.session";
    ASSERT_EQ(sam3_c_save_tracker(tracker.get(), path.c_str()), 1) << sam3_c_last_error();
    const sam3_result expected = sam3_propagate_frame(*cpp, *state_, *model_, frame(2));
    expect_same(propagate(tracker, 2), expected);
    const Tracker restored(sam3_c_create_visual_tracker(session_.get(), nullptr));
    ASSERT_EQ(sam3_c_restore_tracker(restored.get(), path.c_str()), 1) << sam3_c_last_error();
    std::remove(path.c_str());
    expect_same(propagate(restored, 2), expected);

    const sam3_image earlier = frame(1);
    expect_same(Result(sam3_c_propagate_to(restored.get(), earlier.data.data(), earlier.width, earlier.height, 1, 1)),
                sam3_propagate_to(*cpp, *state_, *model_, earlier, 1, true));
    sam3_c_reset_tracker(restored.get());
    EXPECT_EQ(sam3_c_current_frame(restored.get()), -1);
}

TEST_F(CApi, OptionsArriveAndWrongOnesAreRefused) {
    sam3_c_visual_options visual = sam3_c_default_visual_options();
    EXPECT_EQ(visual.history, 16);
    EXPECT_EQ(visual.fill_hole_area, 16);
    visual.history = 0;
    EXPECT_EQ(sam3_c_create_visual_tracker(session_.get(), &visual), nullptr);
    EXPECT_TRUE(said("history"));
    EXPECT_EQ(sam3_c_create_tracker(session_.get(), nullptr, 0, nullptr), nullptr);
    EXPECT_TRUE(said("nothing to look for"));
    const Tracker visual_tracker = clicked();
    EXPECT_EQ(track(visual_tracker, 0), nullptr);
    EXPECT_TRUE(said("sam3_propagate_frame"));
}

TEST_F(CApi, WhatIsNullIsASentence) {
    const uint8_t pixel[3] = {};
    const sam3_c_clicks clicks{&kSquare, nullptr, 1, nullptr};
    const sam3_c_clicks without_points{nullptr, nullptr, 1, nullptr};
    const char* nothing = nullptr;
    const Tracker tracker = clicked();
    const auto refuses = [](auto answer, decltype(answer) failure, const char* what) {
        EXPECT_EQ(answer, failure) << what;
        EXPECT_TRUE(said(what));
    };
    refuses(sam3_c_load_model(nullptr, nullptr), nullptr, "path is NULL");
    refuses(sam3_c_is_visual_only(nullptr), 0, "model is NULL");
    refuses(sam3_c_create_session(nullptr, 1), nullptr, "model is NULL");
    refuses(sam3_c_encode_rgb(nullptr, pixel, 1, 1), 0, "session is NULL");
    refuses(sam3_c_encode_rgb(session_.get(), nullptr, 1, 1), 0, "rgb is NULL");
    refuses(sam3_c_encode_rgb(session_.get(), pixel, 0, -1), 0, "found 0 x -1");
    refuses(sam3_c_segment_text(nullptr, "x", 0.5F), nullptr, "session is NULL");
    refuses(sam3_c_segment_concept(session_.get(), "x", nullptr, nullptr, 1, 0.5F), nullptr, "boxes is NULL");
    refuses(sam3_c_segment_clicks(session_.get(), nullptr, 0), nullptr, "clicks is NULL");
    refuses(sam3_c_segment_clicks(session_.get(), &without_points, 0), nullptr, "points is NULL");
    refuses(sam3_c_save_mask(nullptr, 0, "x.png"), 0, "result is NULL");
    refuses(sam3_c_load_picture(nullptr), nullptr, "path is NULL");
    refuses(sam3_c_load_frame(nullptr, 0), nullptr, "video is NULL");
    refuses(sam3_c_video_info(nullptr).width, 0, "video is NULL");
    refuses(sam3_c_create_tracker(nullptr, &nothing, 1, nullptr), nullptr, "session is NULL");
    refuses(sam3_c_create_tracker(session_.get(), nullptr, 1, nullptr), nullptr, "texts is NULL");
    refuses(sam3_c_create_tracker(session_.get(), &nothing, 1, nullptr), nullptr, "a text is NULL");
    refuses(sam3_c_create_visual_tracker(nullptr, nullptr), nullptr, "session is NULL");
    refuses(sam3_c_track_frame(nullptr, pixel, 1, 1), nullptr, "tracker is NULL");
    refuses(sam3_c_track_rest(nullptr), nullptr, "tracker is NULL");
    refuses(sam3_c_add_text(tracker.get(), nullptr), 0, "text is NULL");
    refuses(sam3_c_remove_text(nullptr, "x"), 0, "tracker is NULL");
    refuses(sam3_c_add_instance(nullptr, &clicks), -1, "tracker is NULL");
    refuses(sam3_c_add_instance(tracker.get(), nullptr), -1, "clicks is NULL");
    refuses(sam3_c_propagate_frame(tracker.get(), nullptr, 1, 1), nullptr, "rgb is NULL");
    refuses(sam3_c_propagate_to(nullptr, pixel, 1, 1, 0, 0), nullptr, "tracker is NULL");
    refuses(sam3_c_refine_instance(nullptr, 0, &clicks), 0, "tracker is NULL");
    refuses(sam3_c_remove_instance(nullptr, 0), 0, "tracker is NULL");
    refuses(sam3_c_current_frame(nullptr), -1, "tracker is NULL");
    refuses(sam3_c_save_tracker(tracker.get(), nullptr), 0, "path is NULL");
    refuses(sam3_c_restore_tracker(nullptr, "x"), 0, "tracker is NULL");
    sam3_c_reset_tracker(nullptr);
    EXPECT_TRUE(said("tracker is NULL"));
    EXPECT_EQ(sam3_c_count(nullptr), 0);
    EXPECT_EQ(sam3_c_frame(nullptr), -1);
    EXPECT_EQ(sam3_c_presence(nullptr), 0.0F);
    EXPECT_EQ(sam3_c_width(nullptr), 0);
    EXPECT_EQ(sam3_c_height(nullptr), 0);
    EXPECT_EQ(sam3_c_pixels(nullptr), nullptr);
}

}  // namespace
