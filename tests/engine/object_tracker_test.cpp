// What must hold of following objects whatever the network says: independence of objects, bounded memory, reuse.
#include "engine/object_tracker.h"
#include "support/clip.h"
#include "support/models.h"
#include "util/error.h"

#include <cmath>
#include <functional>

namespace sam3 {
namespace {

TrackPrompt at(const test::Clip& clip, float x, float y) {
    TrackPrompt prompt;
    prompt.where.points = {clip.point(x, y)};
    return prompt;
}

TrackPrompt disc(float centre_x, float centre_y, float radius, int64_t side = 32) {
    TrackPrompt prompt;
    prompt.by_person = false;
    prompt.mask = Tensor::host({side, side});
    for (int64_t i = 0; i < side * side; ++i) {
        const float x = (static_cast<float>(i % side) + 0.5F) / static_cast<float>(side) - centre_x;
        const float y = (static_cast<float>(i / side) + 0.5F) / static_cast<float>(side) - centre_y;
        prompt.mask.data<float>()[i] = x * x + y * y < radius * radius ? 1.0F : 0.0F;
    }
    return prompt;
}

bool same(const Tensor& a, const Tensor& b) {
    return a.shape() == b.shape() &&
           std::equal(a.data<float>(), a.data<float>() + a.numel(), b.data<float>(), b.data<float>() + b.numel());
}

double difference(const Tensor& a, const Tensor& b) {
    double worst = 0;
    for (int64_t i = 0; i < a.numel(); ++i)
        worst = std::max(worst, static_cast<double>(std::abs(a.data<float>()[i] - b.data<float>()[i])));
    return worst;
}

std::string message_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

class Following : public testing::Test {
protected:
    TrackedFrame step(ObjectTracker& tracker, int64_t frame, StepOptions options = {}) {
        return tracker.step(clip_.ops, clip_.features(frame), frame, options);
    }

    test::Clip clip_;
};

TEST_F(Following, AnObjectsAnswerDoesNotDependOnTheOthers) {
    ObjectTracker alone(clip_.model);
    ObjectTracker crowd(clip_.model);
    alone.prompt(4, 0, at(clip_, 13, 23));
    for (int id = 0; id < 6; ++id) crowd.prompt(id, 0, at(clip_, 13.0F + 12.0F * static_cast<float>(id % 4), 23));
    crowd.prompt(4, 0, at(clip_, 13, 23));
    for (int64_t t = 0; t < 5; ++t) {
        const TrackedFrame one = step(alone, t);
        const TrackedFrame six = step(crowd, t);
        ASSERT_EQ(six.ids, (std::vector<int>{0, 1, 2, 3, 4, 5}));
        EXPECT_LE(difference(one.masks.select(0, 0), six.masks.select(0, 4)), 1e-3) << "frame " << t;
        EXPECT_NEAR(one.object_score[0], six.object_score[4], clip_.ops.device().is_host() ? 1e-4 : 1e-3);
        // Two objects with the same prompt stay the same, whichever chunk of the batch they are in.
        EXPECT_LE(difference(six.masks.select(0, 0), six.masks.select(0, 4)), 1e-3);
    }
}

// Rows of a batch are padded to the longest memory, and each object's memories have ages of their own.
TEST_F(Following, AnObjectThatCameLaterIsFollowedAsIfItWereAlone) {
    ObjectTracker alone(clip_.model);
    ObjectTracker crowd(clip_.model);
    alone.prompt(3, 4, at(clip_, 40, 30));
    crowd.prompt(1, 0, at(clip_, 13, 23));
    crowd.prompt(2, 2, at(clip_, 75, 46));
    crowd.prompt(3, 4, at(clip_, 40, 30));
    for (int64_t t = 0; t < 4; ++t) step(crowd, t);
    for (int64_t t = 4; t < 8; ++t) {
        const TrackedFrame one = step(alone, t);
        const TrackedFrame three = step(crowd, t);
        ASSERT_EQ(three.ids, (std::vector<int>{1, 2, 3}));
        EXPECT_LE(difference(one.masks.select(0, 0), three.masks.select(0, 2)), 1e-3) << "frame " << t;
        EXPECT_NEAR(one.object_score[0], three.object_score[2], 1e-4);
    }
}

TEST_F(Following, RemovingAnObjectLeavesTheOthersAlone) {
    ObjectTracker with(clip_.model);
    ObjectTracker without(clip_.model);
    for (ObjectTracker* tracker : {&with, &without}) {
        tracker->prompt(1, 0, at(clip_, 13, 23));
        tracker->prompt(2, 0, at(clip_, 75, 46));
        for (int64_t t = 0; t < 3; ++t) step(*tracker, t);
    }
    without.remove(1);
    without.remove(99);
    EXPECT_EQ(without.ids(), std::vector<int>{2});
    EXPECT_LT(without.memory_bytes(), with.memory_bytes());
    for (int64_t t = 3; t < 6; ++t) {
        const TrackedFrame both = step(with, t);
        const TrackedFrame one = step(without, t);
        ASSERT_EQ(one.ids, std::vector<int>{2});
        EXPECT_LE(difference(both.masks.select(0, 1), one.masks.select(0, 0)), 1e-3);
    }
}

TEST_F(Following, LeavesOutObjectsThatNothingIsKnownOfYet) {
    ObjectTracker tracker(clip_.model);
    EXPECT_TRUE(step(tracker, 0).ids.empty());
    tracker.prompt(1, 0, at(clip_, 13, 23));
    tracker.prompt(2, 4, at(clip_, 75, 46));
    EXPECT_EQ(step(tracker, 0).ids, std::vector<int>{1});
    EXPECT_EQ(step(tracker, 1).ids, std::vector<int>{1});
    EXPECT_EQ(step(tracker, 4).ids, (std::vector<int>{1, 2}));
    EXPECT_EQ(step(tracker, 2).ids, (std::vector<int>{1, 2}));  // followed backwards in time from frame 4
}

TEST_F(Following, AFrameThatAnObjectWasGivenOnAnswersAsItDidThen) {
    ObjectTracker tracker(clip_.model);
    tracker.prompt(1, 2, at(clip_, 23, 23));
    const TrackedFrame first = step(tracker, 2);
    step(tracker, 3);
    const TrackedFrame again = step(tracker, 2);
    EXPECT_TRUE(same(first.masks, again.masks));
    EXPECT_EQ(first.object_score, again.object_score);
}

TEST_F(Following, ACorrectionChangesTheMasksOfLaterFrames) {
    ObjectTracker tracker(clip_.model);
    tracker.prompt(1, 0, at(clip_, 13, 23));
    std::vector<Tensor> before;
    for (int64_t t = 0; t < 8; ++t) before.push_back(step(tracker, t).masks);
    tracker.prompt(1, 4, at(clip_, 70, 55));
    for (int64_t t = 4; t < 8; ++t)
        EXPECT_GT(difference(before[static_cast<size_t>(t)], step(tracker, t).masks), 0.02) << "frame " << t;
}

TEST_F(Following, PointsJoinEarlierOnesOrTakeTheirPlace) {
    const auto answer = [&](const std::vector<VisualPrompt::Point>& first, const std::vector<VisualPrompt::Point>& then,
                            bool keep_old) {
        ObjectTracker tracker(clip_.model);
        TrackPrompt prompt;
        prompt.where.points = first;
        tracker.prompt(1, 0, prompt);
        step(tracker, 0);
        prompt.where.points = then;
        tracker.prompt(1, 0, prompt, keep_old);
        return step(tracker, 0).masks;
    };
    const auto a = clip_.point(13, 23);
    const auto b = clip_.point(30, 40, false);
    EXPECT_TRUE(same(answer({a}, {b}, true), answer({a}, {a, b}, false)));
    EXPECT_GT(difference(answer({a}, {b}, true), answer({a}, {b}, false)), 0.01);
}

TEST_F(Following, OnlyPromptedObjectsTakePartWhenAskedFor) {
    ObjectTracker tracker(clip_.model);
    tracker.prompt(1, 0, at(clip_, 13, 23));
    step(tracker, 0);
    tracker.prompt(2, 1, disc(0.8F, 0.7F, 0.15F));
    EXPECT_EQ(step(tracker, 1, {.only_prompted = true}).ids, std::vector<int>{2});
    EXPECT_EQ(step(tracker, 1).ids, (std::vector<int>{1, 2}));
}

TEST_F(Following, RememberWritesWhatTheCallerSays) {
    const auto third = [&](float shift, bool seen, bool conditioning) {
        ObjectTracker tracker(clip_.model);
        tracker.prompt(1, 0, at(clip_, 13, 23));
        step(tracker, 0);
        TrackedFrame second = step(tracker, 1, {.remember = false});
        for (int64_t i = 0; i < second.masks.numel(); ++i) second.masks.data<float>()[i] += shift;
        tracker.remember(clip_.ops, clip_.features(1), 1, second.masks, {seen});
        if (conditioning) tracker.make_conditioning(1, 1);
        return step(tracker, 2).masks;
    };
    const Tensor plain = third(0, true, false);
    EXPECT_TRUE(same(plain, third(0, true, false)));
    EXPECT_GT(difference(plain, third(5, true, false)), 1e-3);
    EXPECT_GT(difference(plain, third(0, false, false)), 1e-3);
    EXPECT_GT(difference(plain, third(0, true, true)), 1e-3);
}

TEST_F(Following, AFrameMadeConditioningAnswersAgainWithoutBeingFollowed) {
    ObjectTracker tracker(clip_.model);
    tracker.prompt(1, 0, at(clip_, 13, 23));
    step(tracker, 0);
    const TrackedFrame followed = step(tracker, 1, {.remember = false});
    tracker.remember(clip_.ops, clip_.features(1), 1, followed.masks, {true});
    tracker.make_conditioning(1, 1);
    const size_t bytes = tracker.memory_bytes();
    EXPECT_TRUE(same(step(tracker, 1).masks, followed.masks));
    EXPECT_EQ(tracker.memory_bytes(), bytes);
}

TEST_F(Following, HoldsAsMuchAfterManyFramesAsAfterFew) {
    ObjectTracker tracker(clip_.model);
    tracker.prompt(1, 0, at(clip_, 13, 23));
    tracker.prompt(2, 0, disc(0.8F, 0.7F, 0.15F));
    size_t after_hundred = 0;
    for (int64_t t = 0; t <= 200; ++t) {
        step(tracker, t);
        if (t % 10 == 0 && t > 0) tracker.make_conditioning(2, t);  // a detector confirms it
        if (t == 100) after_hundred = tracker.memory_bytes();
    }
    // Only the pointers of automatic conditioning frames join, up to 256 of them.
    const size_t pointers = 10 * 64 * sizeof(float);
    EXPECT_EQ(tracker.memory_bytes(), after_hundred + pointers);
}

TEST_F(Following, SaysWhatIsWrongWithAPrompt) {
    ObjectTracker tracker(clip_.model);
    TrackPrompt both = at(clip_, 13, 23);
    both.mask = Tensor::host({4, 4});
    EXPECT_NE(message_of([&] { tracker.prompt(1, 0, both); }).find("found both"), std::string::npos);
    EXPECT_NE(message_of([&] { tracker.prompt(1, 0, {}); }).find("found neither"), std::string::npos);
    TrackPrompt box;
    box.where.box = {1, 1, 20, 20};
    EXPECT_NE(message_of([&] { tracker.prompt(1, 0, box, true); }).find("give the box first"), std::string::npos);
    EXPECT_TRUE(tracker.ids().empty());
}

TEST(ObjectTracker, NeedsAModelWithAMemory) {
    LoadOptions options;
    options.path = test::data_path("models/sam1-b");
    const auto model = test::load_model(options);
    EXPECT_NE(message_of([&] { ObjectTracker tracker(model); }), "no error");
}

}  // namespace
}  // namespace sam3
