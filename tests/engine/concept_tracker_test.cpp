// The session around the rules of concept video: order of frames, phrases, corrections, saving.
#include "engine/concept_tracker.h"

#include "concept_video.h"
#include "util/error.h"

#include <filesystem>

namespace sam3 {
namespace {

using test::concept_frames;
using test::make_concept_tracker;

ConceptVideoOptions quick_options() {
    ConceptVideoOptions options;
    options.phrases = {"blue ring", "striped star"};
    options.rules.hotstart_delay = 5;
    options.rules.hotstart_unmatch_thresh = 3;
    options.rules.hotstart_dup_thresh = 3;
    options.rules.recondition_every_nth_frame = 3;
    options.rules.det_nms_thresh = 0.3F;
    options.rules.trk_assoc_iou_thresh = 0.15F;
    options.rules.fill_hole_area = 4;
    return options;
}

ConceptVideoOptions streaming_options() {
    ConceptVideoOptions options = quick_options();
    options.delayed = false;
    return options;
}

std::string message(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

void expect_same(const std::vector<VideoFrameResult>& a, const std::vector<VideoFrameResult>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t f = 0; f < a.size(); ++f) {
        EXPECT_EQ(a[f].frame, b[f].frame);
        ASSERT_EQ(a[f].objects.size(), b[f].objects.size()) << "frame " << a[f].frame;
        for (size_t i = 0; i < a[f].objects.size(); ++i) {
            const VideoObject& left = a[f].objects[i];
            const VideoObject& right = b[f].objects[i];
            EXPECT_EQ(left.id, right.id);
            EXPECT_EQ(left.phrase, right.phrase);
            EXPECT_EQ(left.score, right.score);
            EXPECT_EQ(left.tracker_score, right.tracker_score);
            EXPECT_EQ(left.box, right.box);
            EXPECT_EQ(left.mask, right.mask) << "frame " << a[f].frame << ", object " << left.id;
        }
    }
}

std::vector<VideoFrameResult> push_all(ConceptTracker& tracker, size_t first, size_t last) {
    std::vector<VideoFrameResult> results;
    for (size_t i = first; i < last; ++i)
        for (VideoFrameResult& result : tracker.push(concept_frames()[i % concept_frames().size()]))
            results.push_back(std::move(result));
    return results;
}

const VideoObject* find(const VideoFrameResult& result, int id) {
    for (const VideoObject& object : result.objects)
        if (object.id == id) return &object;
    return nullptr;
}

TEST(ConceptTracker, GivesTheSameSecondHalfAfterSavingAndRestoring) {
    const std::string path = (std::filesystem::temp_directory_path() / "concept-session.gguf").string();
    for (const ConceptVideoOptions& options : {quick_options(), streaming_options()}) {
        ConceptTracker whole = make_concept_tracker(options);
        push_all(whole, 0, 7);
        whole.save(path);
        ConceptTracker resumed = make_concept_tracker(ConceptVideoOptions{});
        resumed.restore(path);
        EXPECT_EQ(resumed.ids(), whole.ids());
        EXPECT_EQ(resumed.phrases(), options.phrases);
        EXPECT_EQ(resumed.rules(), options.rules);
        EXPECT_EQ(resumed.last_frame(), 6);
        expect_same(push_all(resumed, 7, concept_frames().size()), push_all(whole, 7, concept_frames().size()));
        expect_same(resumed.finish(), whole.finish());
        std::filesystem::remove(path);
    }
}

TEST(ConceptTracker, HoldsResultsBackForTheDelayAndHandsOutAllInTheEnd) {
    ConceptTracker tracker = make_concept_tracker(quick_options());
    const size_t count = concept_frames().size();
    const std::vector<VideoFrameResult> early = push_all(tracker, 0, count);
    const std::vector<VideoFrameResult> late = tracker.finish();
    EXPECT_EQ(early.size(), count - 4);
    EXPECT_EQ(late.size(), 4U);
    for (size_t i = 0; i < count; ++i)
        EXPECT_EQ((i < early.size() ? early[i] : late[i - early.size()]).frame, static_cast<int64_t>(i));
    EXPECT_TRUE(tracker.finish().empty());
}

TEST(ConceptTracker, GivesAStreamsResultsAtOnce) {
    ConceptTracker tracker = make_concept_tracker(streaming_options());
    for (int64_t i = 0; i < 3; ++i) {
        const std::vector<VideoFrameResult> results = tracker.push(concept_frames()[static_cast<size_t>(i)]);
        ASSERT_EQ(results.size(), 1U);
        EXPECT_EQ(results[0].frame, i);
        EXPECT_FALSE(results[0].objects.empty());
    }
}

TEST(ConceptTracker, BeginsAnewAfterReset) {
    ConceptTracker tracker = make_concept_tracker(streaming_options());
    const std::vector<VideoFrameResult> first = push_all(tracker, 0, 3);
    tracker.reset();
    EXPECT_TRUE(tracker.ids().empty());
    EXPECT_EQ(tracker.memory_bytes(), 0U);
    expect_same(push_all(tracker, 0, 3), first);
}

TEST(ConceptTracker, ObjectsKeepTheirPhraseWhenPhrasesComeAndGo) {
    ConceptVideoOptions options = streaming_options();
    options.phrases = {"blue ring"};
    ConceptTracker tracker = make_concept_tracker(options);
    push_all(tracker, 0, 2);
    const std::vector<int> before = tracker.ids();
    tracker.add_phrase("striped star");
    tracker.add_phrase("striped star");
    EXPECT_EQ(tracker.phrases().size(), 2U);
    const VideoFrameResult both = push_all(tracker, 2, 3).front();
    EXPECT_GT(tracker.ids().size(), before.size());
    for (const VideoObject& object : both.objects) {
        const bool old = std::find(before.begin(), before.end(), object.id) != before.end();
        EXPECT_EQ(object.phrase == "blue ring", old) << "object " << object.id;
    }
    tracker.remove_phrase("blue ring");
    const std::vector<int> left = tracker.ids();
    for (const int id : before) EXPECT_EQ(std::count(left.begin(), left.end(), id), 0);
    const VideoFrameResult last = push_all(tracker, 3, 4).front();
    for (const VideoObject& object : last.objects) EXPECT_EQ(object.phrase, "striped star");
}

TEST(ConceptTracker, TrackersOfOneSessionShareItsFrames) {
    ConceptVideoOptions ring = streaming_options(), star = streaming_options();
    ring.phrases = {"blue ring"};
    star.phrases = {"striped star"};
    ConceptTracker ring_alone = make_concept_tracker(ring), star_alone = make_concept_tracker(star);
    const auto session = std::make_shared<ImageSession>(test::concept_model(), 1);
    ConceptTracker first(session, ring), second(session, star);
    EXPECT_NE(message([&] { first.push_encoded(); }).find("encode an image first"), std::string::npos);
    for (size_t i = 0; i < 4; ++i) {
        const Image& image = concept_frames()[i];
        session->encode({&image, 1});
        expect_same(first.push_encoded(), ring_alone.push(image));
        expect_same(second.push_encoded(), star_alone.push(image));
    }
    EXPECT_EQ(session->encodings(), 4U);
}

TEST(ConceptTracker, RemovedObjectsAreGoneFromResultsThatWait) {
    ConceptTracker tracker = make_concept_tracker(quick_options());
    push_all(tracker, 0, 3);
    const int id = tracker.ids().front();
    tracker.remove(id);
    tracker.remove(1000);
    for (const VideoFrameResult& result : tracker.finish()) EXPECT_EQ(find(result, id), nullptr);
    for (const VideoFrameResult& result : push_all(tracker, 3, 8)) EXPECT_EQ(find(result, id), nullptr);
}

TEST(ConceptTracker, ACorrectionChangesTheMaskAndTheFramesThatFollow) {
    ConceptTracker plain = make_concept_tracker(streaming_options());
    const std::vector<VideoFrameResult> before = push_all(plain, 0, 4);
    constexpr int kId = 1;
    const VideoObject* old = find(before[2], kId);
    const VideoObject* old_next = find(before[3], kId);
    ASSERT_TRUE(old != nullptr && old_next != nullptr);
    ConceptTracker corrected = make_concept_tracker(streaming_options());
    push_all(corrected, 0, 3);
    const size_t bytes = corrected.memory_bytes();
    VisualQuery query;
    query.points = {{10.0F, 30.0F, true}};
    const VideoFrameResult answer = corrected.refine(kId, query);
    EXPECT_EQ(answer.frame, 2);
    ASSERT_NE(find(answer, kId), nullptr);
    EXPECT_NE(find(answer, kId)->mask, old->mask);
    EXPECT_EQ(answer.objects.size(), before[2].objects.size());
    EXPECT_EQ(corrected.memory_bytes(), bytes) << "the frame's memory is written anew, not beside the old one";
    const VideoFrameResult next = push_all(corrected, 3, 4).front();
    const VideoObject* there = find(next, kId);
    EXPECT_TRUE(there == nullptr || there->tracker_score != old_next->tracker_score) << "the correction is remembered";
}

TEST(ConceptTracker, ACorrectionReachesTheResultThatWaits) {
    ConceptTracker tracker = make_concept_tracker(quick_options());
    push_all(tracker, 0, 2);
    VisualQuery query;
    query.points = {{40.0F, 30.0F, true}};
    const int id = tracker.ids().front();
    const VideoFrameResult answer = tracker.refine(id, query);
    const std::vector<VideoFrameResult> waiting = tracker.finish();
    expect_same({waiting.back()}, {answer});
}

TEST(ConceptTracker, HoldsNoMoreMemoryAfterManyFrames) {
    ConceptVideoOptions options = streaming_options();
    options.rules.max_num_objects = 3;
    ConceptTracker tracker = make_concept_tracker(options);
    push_all(tracker, 0, 40);
    const size_t early = tracker.memory_bytes();
    push_all(tracker, 40, 70);
    EXPECT_EQ(tracker.ids().size(), 3U);
    EXPECT_LE(tracker.memory_bytes(), early + early / 10);
}

TEST(ConceptTracker, SaysWhatIsWrong) {
    ConceptTracker tracker = make_concept_tracker(ConceptVideoOptions{});
    const Image& image = concept_frames().front();
    EXPECT_NE(message([&] { tracker.push(image); }).find("add a phrase"), std::string::npos);
    EXPECT_NE(message([&] { tracker.add_phrase("  "); }).find("phrase is empty"), std::string::npos);
    tracker.add_phrase("person");
    EXPECT_NE(message([&] { tracker.refine(0, {}); }).find("push one first"), std::string::npos);
    tracker.push(image, 4);
    EXPECT_NE(message([&] { tracker.push(image, 4); }).find("frame 4 does not come after frame 4"), std::string::npos);
    EXPECT_NE(message([&] { tracker.push(image, -1); }).find("outside the video"), std::string::npos);
    EXPECT_NE(message([&] { tracker.refine(99, {}); }).find("no object 99"), std::string::npos);
    EXPECT_NE(message([&] { tracker.turn(true); }).find("still held back"), std::string::npos);
    tracker.finish();
    tracker.turn(true);
    tracker.push(image, 3);
    EXPECT_EQ(tracker.last_frame(), 3);
    ConceptVideoOptions backwards;
    backwards.phrases = {"person"};
    backwards.reverse = true;
    ConceptTracker other = make_concept_tracker(backwards);
    EXPECT_NE(message([&] { other.push(image); }).find("needs its length"), std::string::npos);
    backwards.rules.hotstart_delay = 3;
    EXPECT_NE(message([&] { make_concept_tracker(backwards); }).find("hotstart_unmatch_thresh"), std::string::npos);
}

}  // namespace
}  // namespace sam3
