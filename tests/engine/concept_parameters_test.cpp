// Every parameter of ConceptVideoConfig: a scene in which changing it changes the outcome as its comment says.
#include "concept_support.h"

#include "engine/concept_outputs.h"
#include "util/error.h"

#include <gtest/gtest.h>

#include <set>

namespace sam3 {
namespace {

using test::Drawing;

struct Seen {
    Drawing shape;
    float score = 0.9F;
    int phrase = 0;
};

Drawing disc(int x, int y, int radius = 3) { return {{x, y, radius}}; }
Drawing nothing() { return {{}}; }

const Drawing kLeft = disc(4, 8);
const Drawing kRight = disc(12, 8);

ConceptVideoConfig hiding_rules() {
    ConceptVideoConfig rules;
    rules.suppress_unmatched_only_within_hotstart = false;
    rules.init_trk_keep_alive = 2;
    return rules;
}

// A video made of what the detector and the tracker are said to see.
class Scene {
public:
    explicit Scene(const ConceptVideoConfig& rules) : book_(rules, false) {}

    // Tracks in the order of their ids; all of them are surely there.
    FramePlan frame(const std::vector<Seen>& seen, const std::vector<Drawing>& tracks = {}) {
        FrameDetections detections;
        for (const int phrase : {0, 1}) {
            std::vector<float> scores;
            std::vector<Drawing> shapes;
            for (const Seen& one : seen) {
                if (one.phrase != phrase) continue;
                scores.push_back(one.score);
                shapes.push_back(one.shape);
            }
            append_detections(book_.rules(), phrase, scores, test::stack(shapes), detections);
        }
        FrameTracks tracked{test::stack(tracks), std::vector<float>(tracks.size(), object_score)};
        clean_up(tracked.masks, book_.rules().fill_hole_area);
        FramePlan plan = book_.plan({next_++, false, false}, detections, tracked);
        visible = book_.visible(plan, detections, tracked);
        return plan;
    }

    std::vector<int> shown() const {
        std::vector<int> ids;
        for (const FrameObject& object : visible) ids.push_back(object.id);
        return ids;
    }
    const ConceptBook::Track& track(size_t index) const { return book_.tracks().at(index); }
    size_t count() const { return book_.tracks().size(); }

    float object_score = 5.0F;
    std::vector<FrameObject> visible;

private:
    ConceptBook book_;
    int64_t next_ = 0;
};

std::vector<int> none() { return {}; }

TEST(ConceptParameter, ScoreThresholdDetectionIsTheScoreAboveWhichADetectionCounts) {
    ConceptVideoConfig rules;
    for (const auto& [threshold, objects] : {std::pair{0.5F, 1U}, {0.6F, 0U}, {0.65F, 0U}}) {
        rules.score_threshold_detection = threshold;
        Scene scene(rules);
        EXPECT_EQ(scene.frame({{kLeft, 0.6F}}).new_ids.size(), objects) << threshold;
    }
}

TEST(ConceptParameter, DetNmsThreshIsTheOverlapAboveWhichTheWeakerDetectionGoes) {
    ConceptVideoConfig rules;
    const std::vector<Seen> twice = {{disc(7, 8, 4), 0.8F}, {disc(9, 8, 4), 0.9F}};
    for (const auto& [threshold, objects] : {std::pair{0.1F, 1U}, {0.9F, 2U}, {0.0F, 2U}}) {
        rules.det_nms_thresh = threshold;
        Scene scene(rules);
        const FramePlan plan = scene.frame(twice);
        EXPECT_EQ(plan.new_ids.size(), objects) << threshold;
        EXPECT_FLOAT_EQ(scene.track(0).score, objects == 1 ? 0.9F : 0.8F);
    }
}

TEST(ConceptParameter, AssocIouThreshIsTheOverlapFromWhichADetectionIsNoNewObject) {
    ConceptVideoConfig rules;
    for (const auto& [threshold, ids] : {std::pair{0.1F, none()}, {0.6F, std::vector<int>{1}}}) {
        rules.assoc_iou_thresh = threshold;
        Scene scene(rules);
        scene.frame({{disc(7, 8)}});
        EXPECT_EQ(scene.frame({{disc(9, 8)}}, {disc(7, 8)}).new_ids, ids) << threshold;
    }
}

TEST(ConceptParameter, TrkAssocIouThreshIsTheOverlapBelowWhichATrackIsUnmatched) {
    ConceptVideoConfig rules;
    for (const auto& [threshold, unmatched] : {std::pair{0.2F, 0}, {0.9F, 1}}) {
        rules.trk_assoc_iou_thresh = threshold;
        Scene scene(rules);
        scene.frame({{disc(7, 8)}});
        scene.frame({{disc(8, 8)}}, {disc(7, 8)});
        EXPECT_EQ(scene.track(0).unmatched, unmatched) << threshold;
    }
}

TEST(ConceptParameter, NewDetThreshIsTheScoreThatANewObjectNeedsBesideOthers) {
    ConceptVideoConfig rules;
    for (const auto& [threshold, ids] : {std::pair{0.7F, none()}, {0.55F, std::vector<int>{1}}}) {
        rules.new_det_thresh = threshold;
        Scene scene(rules);
        EXPECT_EQ(scene.frame({{kLeft, 0.6F}}).new_ids, std::vector<int>{0}) << "the first needs it not";
        EXPECT_EQ(scene.frame({{kLeft}, {kRight, 0.6F}}, {kLeft}).new_ids, ids) << threshold;
    }
}

TEST(ConceptParameter, ReconditionEveryNthFrameIsHowOftenASureDetectionRenewsAMemory) {
    for (const auto& [period, times] : {std::pair{1, 6}, {3, 2}, {0, 0}}) {
        ConceptVideoConfig rules;
        rules.recondition_every_nth_frame = period;
        Scene scene(rules);
        scene.frame({{kLeft}});
        int found = 0;
        for (int frame = 1; frame <= 6; ++frame)
            found += static_cast<int>(scene.frame({{kLeft}}, {kLeft}).reconditioned.size());
        EXPECT_EQ(found, times) << period;
    }
}

TEST(ConceptParameter, HighConfThreshIsTheScoreThatRenewsAMemory) {
    ConceptVideoConfig rules;
    rules.recondition_every_nth_frame = 1;
    const auto renewed = [&](float threshold, float object_score) {
        rules.high_conf_thresh = threshold;
        Scene scene(rules);
        scene.object_score = object_score;
        scene.frame({{kLeft}});
        return scene.frame({{kLeft, 0.75F}}, {kLeft}).reconditioned.size();
    };
    EXPECT_EQ(renewed(0.8F, 5.0F), 0U);
    EXPECT_EQ(renewed(0.7F, 5.0F), 1U);
    EXPECT_EQ(renewed(0.7F, 0.69F), 0U) << "the track's logit must be above it too";
}

TEST(ConceptParameter, HighIouThreshIsTheOverlapThatRenewsAMemory) {
    ConceptVideoConfig rules;
    rules.recondition_every_nth_frame = 1;
    for (const auto& [threshold, renewed] : {std::pair{0.8F, 0U}, {0.5F, 1U}}) {
        rules.high_iou_thresh = threshold;
        Scene scene(rules);
        scene.frame({{disc(7, 8)}});
        EXPECT_EQ(scene.frame({{disc(8, 8)}}, {disc(7, 8)}).reconditioned.size(), renewed) << threshold;
    }
}

TEST(ConceptParameter, ReconditionOnTrkMasksSaysWhoseMaskTheMemoryIsMadeOf) {
    ConceptVideoConfig rules;
    rules.recondition_every_nth_frame = 1;
    rules.high_iou_thresh = 0.5F;
    for (const bool tracks_own : {true, false}) {
        rules.recondition_on_trk_masks = tracks_own;
        Scene scene(rules);
        scene.frame({{disc(7, 8)}});
        const FramePlan plan = scene.frame({{disc(8, 8)}}, {disc(7, 8)});
        Tensor expected = test::stack(std::vector<Drawing>{tracks_own ? disc(7, 8) : disc(8, 8)});
        if (!tracks_own)
            for (float& logit : stack_row(expected, 0)) logit = logit >= 0.5F ? 1.0F : 0.0F;
        EXPECT_EQ(test::crcs(plan.memory_masks), test::crcs(expected));
    }
}

// Frames until the only track goes, with nothing but noise from the detector; -1: it stays.
int removed_after(const ConceptVideoConfig& rules, int frames = 20) {
    Scene scene(rules);
    scene.frame({{kLeft}});
    for (int frame = 1; frame <= frames; ++frame)
        if (!scene.frame({}, {kLeft}).removed.empty()) return frame;
    return -1;
}

TEST(ConceptParameter, HotstartUnmatchThreshIsTheNumberOfUnmatchedFramesThatRemovesATrack) {
    ConceptVideoConfig rules;
    for (const int frames : {1, 4, 8}) {
        rules.hotstart_unmatch_thresh = frames;
        EXPECT_EQ(removed_after(rules), frames);
    }
}

TEST(ConceptParameter, HotstartDelayIsTheTimeInWhichTracksAreRemovedAndResultsWait) {
    ConceptVideoConfig rules;
    rules.hotstart_unmatch_thresh = 4;
    rules.hotstart_dup_thresh = 4;
    for (const auto& [delay, frames] : {std::pair{15, 4}, {5, 4}, {4, -1}, {0, -1}}) {
        rules.hotstart_delay = delay;
        EXPECT_EQ(removed_after(rules), frames) << delay;
        OutputQueue queue(delay);
        int waiting = 0;
        for (int frame = 0; frame < 30; ++frame) {
            queue.push({frame, 1, 1, {}});
            if (queue.take_ready().empty()) ++waiting;
        }
        EXPECT_EQ(waiting, std::max(delay - 1, 0));
        EXPECT_EQ(static_cast<int>(queue.take_all().size()), std::max(delay - 1, 0));
    }
}

TEST(ConceptParameter, HotstartDupThreshIsTheNumberOfSharedDetectionsThatRemovesTheYounger) {
    for (const int frames : {2, 5}) {
        ConceptVideoConfig rules;
        rules.hotstart_dup_thresh = frames;
        Scene scene(rules);
        scene.frame({{kLeft}});
        scene.frame({{kLeft}, {kRight}}, {kLeft});
        for (int frame = 1; frame < frames; ++frame)
            EXPECT_EQ(scene.frame({{kLeft}}, {kLeft, kLeft}).removed, none()) << frame;
        EXPECT_EQ(scene.frame({{kLeft}}, {kLeft, kLeft}).removed, std::vector<int>{1});
    }
}

// Unmatched frames until the only track is hidden, after `matched` frames on which it was matched.
int hidden_after(const ConceptVideoConfig& rules, int matched = 0) {
    ConceptVideoConfig lasting = rules;
    lasting.hotstart_unmatch_thresh = rules.hotstart_delay;
    Scene scene(lasting);
    scene.frame({{kLeft}});
    for (int frame = 0; frame < matched; ++frame) scene.frame({{kLeft}}, {kLeft});
    for (int frame = 1; frame < lasting.hotstart_delay; ++frame)
        if (!scene.frame({}, {kLeft}).hidden.empty()) return scene.shown().empty() ? frame : -2;
    return -1;
}

TEST(ConceptParameter, InitTrkKeepAliveIsHowLongANewTrackStaysVisible) {
    ConceptVideoConfig rules = hiding_rules();
    for (const int start : {1, 2, 5}) {
        rules.init_trk_keep_alive = start;
        EXPECT_EQ(hidden_after(rules), start);
    }
}

TEST(ConceptParameter, MaxTrkKeepAliveLimitsWhatMatchedFramesEarn) {
    ConceptVideoConfig rules = hiding_rules();
    for (const auto& [most, frames] : {std::pair{30, 6}, {4, 4}, {3, 3}}) {
        rules.max_trk_keep_alive = most;
        EXPECT_EQ(hidden_after(rules, /*matched=*/4), frames) << most;
    }
}

TEST(ConceptParameter, MinTrkKeepAliveLimitsWhatUnmatchedFramesCost) {
    for (const auto& [least, hidden] : {std::pair{-1, 1}, {-4, 4}}) {  // frames after the track is found again
        ConceptVideoConfig rules = hiding_rules();
        rules.hotstart_unmatch_thresh = 15;
        rules.min_trk_keep_alive = least;
        Scene scene(rules);
        scene.frame({{kLeft}});
        for (int frame = 0; frame < 10; ++frame) scene.frame({}, {kLeft});
        EXPECT_EQ(scene.track(0).keep_alive, least);
        int again = 0;
        while (!scene.frame({{kLeft}}, {kLeft}).hidden.empty()) ++again;
        EXPECT_EQ(again, hidden) << least;
    }
}

TEST(ConceptParameter, SuppressUnmatchedOnlyWithinHotstartKeepsUnmatchedTracksVisible) {
    ConceptVideoConfig rules = hiding_rules();
    EXPECT_EQ(hidden_after(rules), 2);
    rules.suppress_unmatched_only_within_hotstart = true;
    EXPECT_EQ(hidden_after(rules), -1);
}

TEST(ConceptParameter, DecreaseTrkKeepAliveForEmptyMaskletsCountsFramesWithoutAMask) {
    for (const bool decrease : {false, true}) {
        ConceptVideoConfig rules = hiding_rules();
        rules.decrease_trk_keep_alive_for_empty_masklets = decrease;
        Scene scene(rules);
        scene.frame({{kLeft}});
        for (int frame = 0; frame < 2; ++frame) scene.frame({}, {nothing()});
        EXPECT_EQ(scene.track(0).keep_alive, decrease ? 0 : 2);
        EXPECT_EQ(scene.frame({}, {kLeft}).hidden, decrease ? std::vector<int>{0} : none());
    }
}

TEST(ConceptParameter, SuppressOverlappingBasedOnRecentOcclusionThresholdHidesTheOneHiddenLast) {
    for (const auto& [threshold, ids] :
         {std::pair{0.7F, std::vector<int>{0, 1}}, {0.3F, std::vector<int>{0}}, {0.0F, std::vector<int>{0, 1}}}) {
        ConceptVideoConfig rules;
        rules.suppress_overlapping_based_on_recent_occlusion_threshold = threshold;
        Scene scene(rules);
        scene.frame({{kLeft}, {kRight}});
        scene.frame({}, {nothing(), kRight});
        scene.frame({}, {kLeft, nothing()});
        scene.frame({}, {disc(7, 8), disc(8, 8)});
        EXPECT_EQ(scene.shown(), ids) << threshold;
    }
}

TEST(ConceptParameter, FillHoleAreaIsTheSizeUpToWhichHolesAndSpecksGo) {
    const Drawing shape{{5, 5, 4}, {5, 5, -4, 5, 6, -4, 14, 14, 4}};  // a hole of two pixels, a speck of one
    for (const auto& [area, left_out, speck] : {std::tuple{0, true, true}, {1, true, false}, {2, false, false}}) {
        ConceptVideoConfig rules;
        rules.fill_hole_area = area;
        Scene scene(rules);
        const auto check = [&, hole = left_out, dot = speck] {
            const float* logits = scene.visible.at(0).logits.data<float>();
            EXPECT_EQ(logits[5 * test::kSide + 5] <= 0, hole) << area;
            EXPECT_EQ(logits[14 * test::kSide + 14] > 0, dot) << area;
        };
        scene.frame({{shape}});
        check();
        scene.frame({{shape}}, {shape});
        check();
    }
}

TEST(ConceptParameter, MaxNumObjectsKeepsTheBestOfTheNew) {
    ConceptVideoConfig rules;
    const std::vector<Seen> four = {
        {disc(3, 3, 2), 0.8F}, {disc(12, 3, 2), 0.95F}, {disc(3, 12, 2), 0.9F}, {disc(12, 12, 2), 0.7F}};
    EXPECT_EQ(Scene(rules).frame(four).new_detections, (std::vector<int>{0, 1, 2, 3}));
    rules.max_num_objects = 2;
    Scene scene(rules);
    EXPECT_EQ(scene.frame(four).new_detections, (std::vector<int>{1, 2}));
    EXPECT_EQ(scene.frame(four, {disc(12, 3, 2), disc(3, 12, 2)}).new_detections, none());
}

TEST(ConceptParameter, EachHasATestOfItsName) {
    std::set<std::string> tested;
    const testing::TestSuite* suite = testing::UnitTest::GetInstance()->current_test_suite();
    for (int i = 0; i < suite->total_test_count(); ++i) tested.insert(suite->GetTestInfo(i)->name());
    const test::Json all = ConceptVideoConfig().to_json();
    for (const auto& [name, value] : all.items()) {
        std::string title;
        for (size_t i = 0; i < name.size(); ++i)
            if (name[i] != '_')
                title += i == 0 || name[i - 1] == '_' ? static_cast<char>(name[i] - 'a' + 'A') : name[i];
        EXPECT_TRUE(std::any_of(tested.begin(), tested.end(), [&](const auto& test) {
            return test.starts_with(title);
        })) << name;
    }
}

TEST(ConceptPhrases, AreKeptApart) {
    Scene scene({});
    EXPECT_EQ(scene.frame({{kLeft, 0.9F, 0}, {kLeft, 0.9F, 1}}).new_ids, (std::vector<int>{0, 1}));
    scene.frame({}, {nothing(), kLeft});
    scene.frame({}, {kLeft, nothing()});
    const FramePlan plan = scene.frame({{kLeft, 0.9F, 1}}, {kLeft, kLeft});
    EXPECT_EQ(scene.track(0).unmatched, 2) << "another phrase's detection does not match it";
    EXPECT_EQ(scene.shown(), (std::vector<int>{0, 1})) << "nor does another phrase's track hide it";
    EXPECT_EQ(plan.seen, (std::vector<bool>{true, true}));
}

TEST(ConceptBook, HoldsNoMoreAfterManyFrames) {
    size_t early = 0;
    ConceptBook book({}, false);
    for (int64_t frame = 0; frame < 3000; ++frame) {
        FrameDetections detections;  // of two objects, the second soon follows the first and is absent at times
        const std::vector<Drawing> found = frame == 0 ? std::vector{kLeft, kRight} : std::vector{kLeft};
        append_detections(book.rules(), 0, std::vector<float>(found.size(), 0.9F), test::stack(found), detections);
        FrameTracks tracks;
        if (frame > 0) {
            tracks.masks = test::stack(std::vector<Drawing>{kLeft, frame % 7 == 0 ? nothing() : disc(5, 8)});
            tracks.object_scores = {1.0F, 1.0F};
        }
        book.plan({frame, false, true}, detections, tracks);
        if (frame == 1000) early = book.to_json().dump().size();
    }
    EXPECT_EQ(book.tracks().size(), 2U);
    EXPECT_LE(book.to_json().dump().size(), early + 4);
}

TEST(ConceptBook, SaysWhatIsWrongWithASavedState) {
    ConceptBook book({}, false);
    EXPECT_THROW(book.from_json(test::Json::parse("{}")), Error);
    EXPECT_THROW(book.from_json(test::Json::parse(R"({"next_id":1,"tracks":[{}],"shared":[]})")), Error);
    EXPECT_THROW(book.from_json(test::Json::parse(R"({"next_id":1,"tracks":[],"shared":[[1,2]]})")), Error);
    EXPECT_THROW(
        book.from_json(test::Json::parse(R"({"next_id":1,"tracks":[{"id":1,"phrase":0,"score":1,"first_frame":0,
        "unmatched":0,"keep_alive":1,"last_hidden":null}],"shared":[]})")),
        Error);
    EXPECT_EQ(book.tracks().size(), 0U);
}

TEST(ConceptBook, WithoutTheShiftEachTrackKeepsItsOwnMaskWhenAnotherIsRemoved) {
    ConceptVideoConfig rules;
    rules.hotstart_unmatch_thresh = 1;
    Scene scene(rules);
    scene.frame({{kLeft}, {kRight}});
    EXPECT_EQ(scene.frame({{kRight}}, {kLeft, kRight}).removed, std::vector<int>{0});
    ASSERT_EQ(scene.shown(), std::vector<int>{1});
    EXPECT_EQ(test::crcs(scene.visible[0].logits.unsqueeze(0)), test::crcs(test::stack(std::vector<Drawing>{kRight})));
}

}  // namespace
}  // namespace sam3
