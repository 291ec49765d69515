// Which memories attention sees and which are let go, on made-up entries.
#include "engine/memory_bank.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

namespace sam3 {
namespace {

using Frames = std::set<int64_t>;

// A tensor that says which frame it is of.
Tensor marked(int64_t frame) {
    Tensor tensor = Tensor::host({1});
    tensor.data<float>()[0] = static_cast<float>(frame);
    return tensor;
}
int64_t frame_of(const Tensor& tensor) { return static_cast<int64_t>(tensor.data<float>()[0]); }

MemoryBank::Entry tracked(int64_t frame, float quality = 1.0F) {
    MemoryBank::Entry entry;
    entry.tokens = marked(frame);
    entry.pointer = marked(frame);
    entry.quality = quality;
    return entry;
}
MemoryBank::Entry conditioning(int64_t frame, bool by_person = true) {
    MemoryBank::Entry entry = tracked(frame);
    entry.masks = marked(frame);
    entry.conditioning = true;
    entry.by_person = by_person;
    return entry;
}

class Bank : public testing::Test {
protected:
    void given(const Frames& frames, bool by_person = true) {
        for (const int64_t t : frames) bank_.put(t, conditioning(t, by_person));
    }
    void followed(int64_t first, int64_t last, float quality = 1.0F) {
        for (int64_t t = first; t <= last; ++t) bank_.put(t, tracked(t, quality));
    }
    ObjectMemory recall(int64_t frame, bool reverse = false, int64_t total = 100) const {
        return bank_.recall(config_, behaviour_, {frame, reverse, total});
    }
    // Frame -> age of the spatial memories.
    std::map<int64_t, int> spatial(int64_t frame, bool reverse = false) const {
        std::map<int64_t, int> ages;
        for (const auto& memory : recall(frame, reverse).spatial) ages[frame_of(memory.tokens)] = memory.age;
        return ages;
    }
    Frames conditioned(int64_t frame) const {
        Frames frames;
        for (const auto& [t, age] : spatial(frame))
            if (age == 0) frames.insert(t);
        return frames;
    }
    // Frame -> distance in frames; `reach` is what distances are divided by, plus one.
    std::map<int64_t, int> pointers(int64_t frame, bool reverse = false, int64_t total = 100, int reach = 16) const {
        std::map<int64_t, int> distances;
        for (const auto& pointer : recall(frame, reverse, total).pointers) {
            const float distance = pointer.distance * static_cast<float>(reach - 1);
            EXPECT_NEAR(distance, std::round(distance), 1e-4);
            EXPECT_TRUE(distances.emplace(frame_of(pointer.vector), static_cast<int>(std::lround(distance))).second)
                << "twice";
        }
        return distances;
    }
    void prune(int64_t frame, int64_t start) { bank_.prune(config_, behaviour_, limits_, frame, start); }
    Frames kept() const {
        Frames frames;
        for (const auto& [t, entry] : bank_.entries())
            if (entry.tokens) frames.insert(t);
        return frames;
    }

    MemoryBank bank_;
    MemoryConfig config_;  // 7 temporal encodings, 16 pointers, 4 conditioning frames
    Behaviour behaviour_ = Behaviour::hugging_face();
    BankLimits limits_;
};

TEST_F(Bank, SeesAllConditioningFramesWhileTheyAreFew) {
    given({0, 40, 60, 90});
    EXPECT_EQ(conditioned(50), (Frames{0, 40, 60, 90}));
}

TEST_F(Bank, TakesTheClosestConditioningFrameOnEachSideAndThenTheClosest) {
    given({0, 10, 20, 30, 31, 32, 33, 60});
    EXPECT_EQ(conditioned(40), (Frames{33, 60, 32, 31}));
    EXPECT_EQ(conditioned(5), (Frames{0, 10, 20, 30}));
    // None before, none after.
    EXPECT_EQ(conditioned(-1), (Frames{0, 10, 20, 30}));
    EXPECT_EQ(conditioned(90), (Frames{60, 33, 32, 31}));
}

TEST_F(Bank, CountsTheFrameItselfAsOneAfter) {
    config_.conditioning_frames = 2;
    given({8, 10, 11});
    EXPECT_EQ(conditioned(10), (Frames{8, 10}));
}

TEST_F(Bank, TakesTheEarlierOfTwoFramesAsClose) {
    config_.conditioning_frames = 3;
    given({0, 4, 9, 11, 16, 20});
    EXPECT_EQ(conditioned(10), (Frames{9, 11, 4}));
}

TEST_F(Bank, SeesEveryConditioningFrameWhenThereIsNoLimit) {
    config_.conditioning_frames = -1;
    given({0, 10, 20, 30, 40, 50, 60});
    EXPECT_EQ(conditioned(35).size(), 7U);
}

TEST_F(Bank, LooksBackAsManyFramesAsThereAreTemporalEncodings) {
    given({0});
    followed(1, 19);
    EXPECT_EQ(spatial(20), (std::map<int64_t, int>{{0, 0}, {14, 6}, {15, 5}, {16, 4}, {17, 3}, {18, 2}, {19, 1}}));
}

TEST_F(Bank, LooksAheadInReverse) {
    given({30});
    followed(5, 29);
    EXPECT_EQ(spatial(4, true), (std::map<int64_t, int>{{30, 0}, {5, 1}, {6, 2}, {7, 3}, {8, 4}, {9, 5}, {10, 6}}));
}

TEST_F(Bank, TreatsAnUnselectedConditioningFrameInTheWindowAsAnOrdinaryOne) {
    config_.conditioning_frames = 2;
    given({17, 18, 19, 21});
    followed(16, 16);
    EXPECT_EQ(spatial(20), (std::map<int64_t, int>{{19, 0}, {21, 0}, {18, 2}, {17, 3}, {16, 4}}));
}

TEST_F(Bank, LeavesOutMemoriesThatAreNotWritten) {
    given({0});
    followed(1, 2);
    bank_.find(2)->tokens = {};
    EXPECT_EQ(spatial(3), (std::map<int64_t, int>{{0, 0}, {1, 2}}));
    EXPECT_EQ(pointers(3), (std::map<int64_t, int>{{0, 3}, {1, 2}, {2, 1}}));
}

TEST_F(Bank, RecallsPointersOfThePastOnly) {
    given({0, 30});
    followed(1, 29);
    const std::map<int64_t, int> distances = pointers(20);
    EXPECT_EQ(distances.size(), 16U);  // frame 0 and the 15 just before
    EXPECT_EQ(distances.at(0), 20);
    EXPECT_EQ(distances.at(5), 15);
    EXPECT_EQ(distances.count(4), 0U);
    EXPECT_EQ(distances.count(30), 0U);
}

TEST_F(Bank, RecallsPointersOfTheFutureInReverse) {
    given({0, 30});
    followed(11, 29);
    const std::map<int64_t, int> distances = pointers(10, true);
    EXPECT_EQ(distances.size(), 16U);
    EXPECT_EQ(distances.at(30), 20);
    EXPECT_EQ(distances.at(25), 15);
    EXPECT_EQ(distances.count(26), 0U);
    EXPECT_EQ(distances.count(0), 0U);
}

TEST_F(Bank, MeasuresPointersOfAShortVideoByItsLength) {
    given({0});
    followed(1, 9);
    const std::map<int64_t, int> distances = pointers(9, false, /*total=*/10, /*reach=*/10);
    EXPECT_EQ(distances.size(), 9U);
    EXPECT_EQ(distances.at(8), 1);
    EXPECT_EQ(distances.at(0), 9);
    // A reach of 4 leaves the three frames before it, and the conditioning frame.
    EXPECT_EQ(pointers(9, false, 4, 4), (std::map<int64_t, int>{{0, 9}, {6, 3}, {7, 2}, {8, 1}}));
}

TEST_F(Bank, DoesNotShortenTheReachOfAStream) {
    given({0});
    followed(1, 3);
    EXPECT_EQ(pointers(4, false, /*total=*/-1, /*reach=*/16), (std::map<int64_t, int>{{0, 4}, {1, 3}, {2, 2}, {3, 1}}));
}

TEST_F(Bank, RecallsAllConditioningPointersOrThoseSelected) {
    config_.conditioning_frames = 2;
    given({0, 1, 2, 40});
    EXPECT_EQ(pointers(39), (std::map<int64_t, int>{{0, 39}, {1, 38}, {2, 37}}));
    behaviour_.all_conditioning_pointers = false;
    EXPECT_EQ(pointers(39), (std::map<int64_t, int>{{2, 37}}));
    // An unselected one within reach counts as an ordinary frame.
    EXPECT_EQ(pointers(5), (std::map<int64_t, int>{{2, 3}, {1, 4}, {0, 5}}));
}

class SelectingBank : public Bank {
protected:
    SelectingBank() { behaviour_ = Behaviour::official(); }
};

TEST_F(SelectingBank, PassesOverFramesWithAPoorMask) {
    given({0});
    followed(1, 29);
    for (const int64_t t : {21, 22, 23, 24, 25, 26, 27}) bank_.find(t)->quality = 0.005F;
    EXPECT_EQ(spatial(30), (std::map<int64_t, int>{{0, 0}, {29, 1}, {28, 2}, {20, 3}, {19, 4}, {18, 5}, {17, 6}}));
}

TEST_F(SelectingBank, AlwaysTakesTheFrameJustBefore) {
    given({0});
    followed(1, 19);
    bank_.find(19)->quality = 0;
    EXPECT_EQ(spatial(20).at(19), 1);
    EXPECT_EQ(spatial(20).at(18), 2);
    // In reverse it is the one just after.
    EXPECT_EQ(spatial(10, true).at(11), 1);
}

TEST_F(SelectingBank, CountsPointersByRankAndLeavesTheOldestOut) {
    given({0});
    followed(2, 3);
    followed(8, 9);
    bank_.find(9)->quality = 0;
    EXPECT_EQ(pointers(10), (std::map<int64_t, int>{{0, 10}, {9, 1}, {8, 2}, {3, 3}}));
}

TEST_F(SelectingBank, TakesNoMorePointersThanTheReach) {
    given({0});
    followed(1, 39);
    const std::map<int64_t, int> distances = pointers(40);
    EXPECT_EQ(distances.size(), 15U);  // the conditioning frame, and 15 frames less the oldest
    EXPECT_EQ(distances.at(26), 14);
    EXPECT_EQ(distances.count(25), 0U);
}

TEST_F(SelectingBank, NeverTakesFrameZeroAsAnOrdinaryOne) {
    given({5});
    followed(0, 4);
    EXPECT_EQ(spatial(6).count(0), 0U);
    EXPECT_EQ(spatial(6).count(1), 1U);
}

TEST_F(SelectingBank, KeepsGoodMemoriesThroughALongOcclusion) {
    given({0});
    followed(1, 10);
    for (int64_t t = 11; t <= 200; ++t) {
        bank_.put(t, tracked(t, 0.0F));
        prune(t, 0);
    }
    EXPECT_EQ(spatial(201), (std::map<int64_t, int>{{0, 0}, {200, 1}, {10, 2}, {9, 3}, {8, 4}, {7, 5}, {6, 6}}));
}

TEST_F(Bank, PruningKeepsWhatLiesNearTheFrameAndTheStartOfThePass) {
    limits_.history = 3;
    config_.pointers = 5;
    given({50});
    followed(51, 90);
    prune(90, 50);
    EXPECT_EQ(kept(), (Frames{50, 51, 52, 53, 87, 88, 89, 90}));
    // Pointers reach further.
    Frames pointed;
    for (const auto& [t, entry] : bank_.entries()) pointed.insert(t);
    EXPECT_EQ(pointed, (Frames{50, 51, 52, 53, 54, 55, 85, 86, 87, 88, 89, 90}));
}

TEST_F(Bank, PruningNeverTakesWhatAPersonGave) {
    given({0, 100, 200, 300, 400, 500, 600, 700});
    followed(701, 720);
    prune(2000, 2000);
    EXPECT_EQ(kept(), (Frames{0, 100, 200, 300, 400, 500, 600, 700}));
    EXPECT_TRUE(bank_.find(0)->masks);
}

TEST_F(Bank, PruningKeepsTheFirstAndTheNearestAutomaticConditioningFrames) {
    config_.conditioning_frames = 2;
    limits_.history = 4;
    behaviour_.all_conditioning_pointers = false;
    given({0, 20, 40, 60, 80, 100, 120}, /*by_person=*/false);
    prune(90, 90);
    EXPECT_EQ(kept(), (Frames{0, 20, 60, 80, 100, 120}));
}

TEST_F(Bank, PruningKeepsAtMost256PointersOfAutomaticConditioningFrames) {
    for (int64_t t = 0; t < 20000; t += 20) {
        bank_.put(t, conditioning(t, /*by_person=*/false));
        prune(t, 0);
    }
    EXPECT_EQ(kept().size(), 9U);  // the first four, the current one and the four before it
    EXPECT_EQ(bank_.entries().size(), 9U + 256U);
    EXPECT_EQ(bank_.find(100), nullptr);
    EXPECT_TRUE(bank_.find(19000)->pointer);
    EXPECT_FALSE(bank_.find(19000)->masks);
}

TEST_F(Bank, AnswersOfOrdinaryFramesAreKeptOnlyForTheCurrentFrame) {
    given({0});
    for (int64_t t = 1; t <= 3; ++t) {
        bank_.put(t, tracked(t));
        bank_.find(t)->masks = marked(t);
        prune(t, 0);
    }
    EXPECT_TRUE(bank_.find(0)->masks);
    EXPECT_FALSE(bank_.find(2)->masks);
    EXPECT_TRUE(bank_.find(3)->masks);
}

TEST_F(Bank, PruningDoesNotChangeWhatIsRecalled) {
    for (const bool official : {false, true}) {
        behaviour_ = official ? Behaviour::official() : Behaviour::hugging_face();
        MemoryBank whole;
        bank_ = {};
        for (int64_t t = 0; t < 300; ++t) {
            const ObjectMemory some = bank_.recall(config_, behaviour_, {t, false, 300});
            const ObjectMemory all = whole.recall(config_, behaviour_, {t, false, 300});
            const auto frames = [](const ObjectMemory& memory) {
                std::set<std::pair<int64_t, int>> list;
                for (const auto& item : memory.spatial) list.emplace(frame_of(item.tokens), item.age);
                for (const auto& item : memory.pointers)
                    list.emplace(1000 + frame_of(item.vector), static_cast<int>(std::lround(1000 * item.distance)));
                return list;
            };
            ASSERT_EQ(frames(some), frames(all)) << "frame " << t << (official ? ", official" : ", hf");
            const bool detected = t % 16 == 0 || (t > 100 && t < 110);
            const float quality = t % 50 < 20 ? 0.0F : 0.5F;
            bank_.put(t, detected ? conditioning(t, false) : tracked(t, quality));
            whole.put(t, detected ? conditioning(t, false) : tracked(t, quality));
            prune(t, 0);
        }
    }
}

TEST_F(Bank, HoldsAsMuchAfterAThousandFramesAsAfterAHundred) {
    given({0});
    size_t after_hundred = 0;
    for (int64_t t = 1; t <= 1000; ++t) {
        bank_.put(t, tracked(t));
        prune(t, 0);
        if (t == 100) after_hundred = bank_.bytes();
    }
    EXPECT_EQ(bank_.bytes(), after_hundred);
    EXPECT_GT(after_hundred, 0U);
}

TEST_F(Bank, CannotTrackWithoutAConditioningMemory) {
    EXPECT_FALSE(bank_.can_track());
    followed(1, 3);
    EXPECT_FALSE(bank_.can_track());
    given({4});
    EXPECT_TRUE(bank_.can_track());
}

TEST(FrameIntervals, MergesNeighboursInAnyOrder) {
    FrameIntervals frames;
    for (const int64_t t : {5, 7, 6, 1, 2, 10, 9, 8, 5}) frames.add(t);
    EXPECT_EQ(frames.intervals(), (std::map<int64_t, int64_t>{{1, 2}, {5, 10}}));
    for (const int64_t t : {1, 2, 5, 10}) EXPECT_TRUE(frames.contains(t)) << t;
    for (const int64_t t : {0, 3, 4, 11}) EXPECT_FALSE(frames.contains(t)) << t;
}

TEST(FrameIntervals, SwallowsWhatAWiderIntervalCovers) {
    FrameIntervals frames;
    frames.add(3);
    frames.add(8, 9);
    frames.add(20);
    frames.add(1, 12);
    frames.add(13, 19);
    EXPECT_EQ(frames.intervals(), (std::map<int64_t, int64_t>{{1, 20}}));
}

}  // namespace
}  // namespace sam3
