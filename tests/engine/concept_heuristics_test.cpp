// The rules of concept video against transformers' Sam3VideoModel on made-up detections and tracks: every decision on
// every frame of whole sequences, and the functions that make them.
#include "concept_support.h"

#include "engine/concept_outputs.h"
#include "mask/geometry.h"
#include "support/tensors.h"

#include <gtest/gtest.h>

namespace sam3 {
namespace {

using test::Json;
using test::stack;

const Json& goldens() {
    static const Json data = test::read_json("engine/concept_heuristics.json");
    return data;
}

ConceptVideoConfig rules_of(const Json& json) { return ConceptVideoConfig::from_json(json, "golden"); }

TEST(ConceptRules, CleanUpEqualsTheReference) {
    for (const Json& entry : goldens().at("clean_up")) {
        const Tensor masks = stack(entry.at("masks"));
        clean_up(masks, entry.at("area").get<int64_t>());
        EXPECT_EQ(test::crcs(masks), entry.at("expected").get<std::vector<uint32_t>>()) << "area " << entry.at("area");
    }
}

TEST(ConceptRules, SuppressionOfDetectionsEqualsTheReference) {
    for (const Json& entry : goldens().at("kept_detections")) {
        const std::vector<int> kept =
            kept_detections(entry.at("scores").get<std::vector<float>>(), stack(entry.at("masks")),
                            entry.at("threshold").get<float>(), entry.at("nms").get<float>());
        EXPECT_EQ(kept, entry.at("expected").get<std::vector<int>>()) << entry.dump();
    }
}

// More pixels than a thread takes at a time, and some left over.
TEST(ConceptRules, ThreadsChangeNothing) {
    const Tensor masks = test::random_tensor({10, 67, 71}, 3);
    const std::vector<int> groups{0, 1, 0, 0, 1, 0, 0, 0, 0, 0};
    const std::vector<Mask> shapes = inside(masks);
    const std::vector<float> scores{0.3F, 0.9F, 0.7F, 0.0F, 0.9F, 0.2F, 0.4F, 0.7F, 0.6F, 0.1F};
    std::vector<Mask> apart = shapes;
    separate(apart, scores, groups);
    for (const int threads : {2, 3, 7}) {
        const std::vector<Mask> again = inside(masks, threads);
        std::vector<Mask> again_apart = again;
        separate(again_apart, scores, groups, threads);
        for (size_t i = 0; i < shapes.size(); ++i) {
            EXPECT_EQ(again[i].data, shapes[i].data);
            EXPECT_EQ(again_apart[i].data, apart[i].data);
        }
        EXPECT_EQ(mask_overlaps(shapes, shapes, Overlap::iou, threads), mask_overlaps(shapes, shapes));
        EXPECT_EQ(test::crcs(without_shrunken(masks, groups, threads)), test::crcs(without_shrunken(masks, groups)));
    }
    EXPECT_NE(test::crcs(without_shrunken(masks, groups)), test::crcs(masks));  // there is something to compare
}

TEST(ConceptRules, ShrunkenMasksAreThoseOfTheReference) {
    for (const Json& entry : goldens().at("without_shrunken")) {
        const Tensor masks = without_shrunken(stack(entry.at("masks")), entry.at("groups").get<std::vector<int>>());
        EXPECT_EQ(test::crcs(masks), entry.at("expected").get<std::vector<uint32_t>>()) << entry.dump();
    }
}

TEST(ConceptRules, AssociationEqualsTheReference) {
    for (const Json& entry : goldens().at("associate")) {
        FrameDetections detections;
        detections.masks = stack(entry.at("detections"));
        detections.scores = entry.at("scores").get<std::vector<float>>();
        detections.phrases = entry.at("detection_phrases").get<std::vector<int>>();
        const Association found =
            associate(rules_of(entry.at("rules")), detections, inside(stack(entry.at("tracks"))),
                      entry.at("ids").get<std::vector<int>>(), entry.at("track_phrases").get<std::vector<int>>());
        const Json& expected = entry.at("expected");
        EXPECT_EQ(found.new_detections, expected.at("new").get<std::vector<int>>());
        EXPECT_EQ(found.unmatched, expected.at("unmatched").get<std::vector<int>>());
        EXPECT_EQ(found.empty, expected.at("empty").get<std::vector<int>>());
        EXPECT_EQ(found.matches, expected.at("matches").get<std::vector<std::vector<int>>>());
        Json confirmed = Json::array();
        for (const auto& [id, detection] : found.confirmed) confirmed.push_back({id, detection});
        EXPECT_EQ(confirmed, expected.at("confirmed"));
    }
}

// Replays one sequence; optionally the book goes through its saved form before every frame.
class Replay {
public:
    Replay(const Json& sequence, bool save_often)
        : sequence_(sequence),
          save_often_(save_often),
          book_(rules_of(sequence.at("rules")), /*shift_on_removal=*/true),
          queue_(flag("streaming") ? 0 : book_.rules().hotstart_delay) {}

    void run() {
        for (const Json& frame : sequence_.at("frames")) {
            SCOPED_TRACE(sequence_.at("name").get<std::string>() + ", frame " + frame.at("frame").dump());
            if (save_often_) reload();
            step(frame);
            if (testing::Test::HasFailure()) return;
        }
    }

private:
    bool flag(const char* name) const { return sequence_.at(name).get<bool>(); }

    void reload() {
        ConceptBook other(book_.rules(), true);
        other.from_json(Json::parse(book_.to_json().dump()));
        book_ = other;
    }

    void step(const Json& frame) {
        FrameDetections detections;
        int phrase = 0;
        for (const Json& found : frame.at("detections"))
            append_detections(book_.rules(), phrase++, found.at("scores").get<std::vector<float>>(),
                              stack(found.at("masks")), detections);
        FrameTracks tracks{stack(frame.at("tracks")), frame.at("object_scores").get<std::vector<float>>()};
        clean_up(tracks.masks, book_.rules().fill_hole_area);
        const FrameMoment when{frame.at("frame").get<int64_t>(), flag("reverse"), flag("streaming")};
        const FramePlan plan = book_.plan(when, detections, tracks);
        const Json& expected = frame.at("expected");
        check_plan(plan, expected);
        check_book(expected);
        PendingFrame pending{when.frame, 2 * test::kSide, 2 * test::kSide, book_.visible(plan, detections, tracks)};
        check_visible(pending, expected);
        for (const int id : plan.removed) queue_.forget(id);
        queue_.push(std::move(pending));
        const bool last = &frame == &sequence_.at("frames").back();
        check_shown(last ? queue_.take_all() : queue_.take_ready(), frame.at("shown"));
    }

    static void check_plan(const FramePlan& plan, const Json& expected) {
        EXPECT_EQ(plan.new_detections, expected.at("new_detections").get<std::vector<int>>());
        EXPECT_EQ(plan.new_ids, expected.at("new_ids").get<std::vector<int>>());
        EXPECT_EQ(plan.removed, expected.at("removed").get<std::vector<int>>());
        EXPECT_EQ(plan.hidden, expected.at("hidden").get<std::vector<int>>());
        std::vector<int> reconditioned;
        for (const auto& [id, detection] : plan.reconditioned) reconditioned.push_back(id);
        EXPECT_EQ(reconditioned, expected.at("reconditioned").get<std::vector<int>>());
        EXPECT_EQ(test::crcs(plan.memory_masks), expected.at("memories").get<std::vector<uint32_t>>());
        EXPECT_EQ(Json(plan.seen), expected.at("seen"));
    }

    void check_book(const Json& expected) const {
        Json found = {{"ids", book_.ids()}};
        for (const char* name : {"phrases", "scores", "unmatched", "keep_alive", "last_hidden"})
            found[name] = Json::array();
        for (const ConceptBook::Track& track : book_.tracks()) {
            found["phrases"].push_back(track.phrase);
            found["unmatched"].push_back(track.unmatched);
            found["keep_alive"].push_back(track.keep_alive);
            found["last_hidden"].push_back(track.last_hidden ? Json(*track.last_hidden) : Json());
            found["scores"].push_back(track.score);
        }
        for (const char* name : {"ids", "phrases", "unmatched", "keep_alive", "last_hidden"})
            EXPECT_EQ(found.at(name), expected.at(name)) << name;
        EXPECT_EQ(found.at("scores").get<std::vector<float>>(), expected.at("scores").get<std::vector<float>>());
    }

    static void check_visible(const PendingFrame& pending, const Json& expected) {
        ASSERT_EQ(pending.objects.size(), expected.at("visible").size());
        for (size_t i = 0; i < pending.objects.size(); ++i) {
            const FrameObject& object = pending.objects[i];
            const Json& other = expected.at("visible").at(i);
            EXPECT_EQ(object.id, other.at(0).get<int>());
            EXPECT_NEAR(object.tracker_score, other.at(1).get<float>(), 1e-6) << "object " << object.id;
            EXPECT_EQ(test::crcs(object.logits.unsqueeze(0))[0], other.at(2).get<uint32_t>()) << "object " << object.id;
        }
    }

    static void check_shown(const std::vector<PendingFrame>& frames, const Json& expected) {
        const std::vector<std::string> phrases = {"phrase 0", "phrase 1"};
        const std::shared_ptr<Device> device = make_cpu_device();
        ASSERT_EQ(frames.size(), expected.size());
        for (size_t f = 0; f < frames.size(); ++f) {
            Ops ops(*device, 1);
            const VideoFrameResult result = render(frames[f], phrases, ops);
            EXPECT_EQ(result.frame, expected.at(f).at(0).get<int64_t>());
            const Json& objects = expected.at(f).at(1);
            ASSERT_EQ(result.objects.size(), objects.size()) << "shown frame " << result.frame;
            for (size_t i = 0; i < objects.size(); ++i) {
                const VideoObject& object = result.objects[i];
                EXPECT_EQ(object.id, objects[i].at(0).get<int>());
                EXPECT_EQ(object.score, objects[i].at(1).get<float>());
                const auto box = objects[i].at(2).get<std::vector<float>>();  // names the last pixel
                EXPECT_EQ(object.box, (Box{box[0], box[1], box[2] + 1, box[3] + 1}));
                EXPECT_EQ(test::crc(object.mask.data.data(), object.mask.data.size()), objects[i].at(3).get<uint32_t>())
                    << "object " << object.id << " on shown frame " << result.frame;
                EXPECT_EQ(object.phrase, phrases[objects[i].at(4).get<size_t>()]);
            }
        }
    }

    const Json& sequence_;
    bool save_often_;
    ConceptBook book_;
    OutputQueue queue_;
};

TEST(ConceptSequences, EveryDecisionEqualsTheReferenceOnEveryFrame) {
    for (const Json& sequence : goldens().at("sequences")) Replay(sequence, false).run();
}

TEST(ConceptSequences, AreTheSameWhenSavedAndRestoredBeforeEveryFrame) {
    for (const Json& sequence : goldens().at("sequences")) Replay(sequence, true).run();
}

TEST(ConceptSequences, ExerciseEveryRule) {
    int64_t added = 0, removed = 0, hidden = 0, reconditioned = 0, emptied = 0, empty_memories = 0;
    for (const Json& sequence : goldens().at("sequences"))
        for (const Json& frame : sequence.at("frames")) {
            const Json& expected = frame.at("expected");
            added += static_cast<int64_t>(expected.at("new_ids").size());
            removed += static_cast<int64_t>(expected.at("removed").size());
            hidden += static_cast<int64_t>(expected.at("hidden").size());
            reconditioned += static_cast<int64_t>(expected.at("reconditioned").size());
            const auto last = expected.at("last_hidden");
            emptied += std::count(last.begin(), last.end(), frame.at("frame"));
            const auto seen = expected.at("seen");
            empty_memories += std::count(seen.begin(), seen.end(), Json(false));
        }
    for (const int64_t count : {added, removed, hidden, reconditioned, emptied}) EXPECT_GT(count, 20);
    EXPECT_GT(empty_memories, emptied) << "some masks are emptied by the area rule alone";
}

}  // namespace
}  // namespace sam3
