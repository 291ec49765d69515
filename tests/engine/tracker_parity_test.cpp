// Following objects through a video against transformers' Sam3TrackerVideoModel on a small model: prompts of every
// kind, several objects, corrections, both directions, an object that goes and comes back, a stream.
#include "engine/object_tracker.h"
#include "mask/upsample.h"
#include "support/clip.h"
#include "support/traces.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace sam3 {
namespace {

using Json = nlohmann::json;

constexpr double kTolerance = 1e-4;  // of each tensor's range, and of scores
// Memories are rounded to bf16, and a value that is rounded the other way moves all later frames: the reference's own,
// between runs that are the same on paper, by as much as the golden says (video_tracker.py). So much is left to ours.
constexpr double kSpreads = 4;
// Where the reference's variations happened to flip no rounding, its spread says nothing; this is the least of the
// cases in which one did.
constexpr double kLeastSpread = 1.6e-4;

class TrackerParity : public testing::TestWithParam<std::string> {
protected:
    TrackerParity()
        : golden_(test::data_path("models/sam3-v/video-" + GetParam() + ".safetensors")),
          actions_(Json::parse(golden_.text("actions"))),
          clip_(golden_.text("behaviour")),
          tracker_(clip_.model) {}

    // The mask that a person gives, at the network's size.
    Tensor given_mask(const std::string& name) const {
        const std::vector<uint8_t> packed = golden_.bytes(name);
        const int64_t side = clip_.model->image_size();
        Tensor mask = Tensor::host({side, side});
        for (int64_t i = 0; i < mask.numel(); ++i)
            mask.data<float>()[i] = static_cast<float>((packed[static_cast<size_t>(i / 8)] >> (7 - i % 8)) & 1);
        return mask;
    }

    void prompt(const Json& action) {
        TrackPrompt prompt;
        if (action.contains("mask")) {
            prompt.mask = given_mask(action["mask"]);
        } else {
            for (size_t i = 0; i < action["points"].size(); ++i)
                prompt.where.points.push_back(
                    clip_.point(action["points"][i][0], action["points"][i][1], action["labels"][i] == 1));
        }
        if (action.contains("box")) {
            const auto low = clip_.point(action["box"][0], action["box"][1]);
            const auto high = clip_.point(action["box"][2], action["box"][3]);
            prompt.where.box = {low.x, low.y, high.x, high.y};
        }
        tracker_.prompt(action["id"], action["frame"], prompt, action.value("keep_old", false));
    }

    TrackedFrame step(const Json& action) {
        StepOptions options;
        options.reverse = action["reverse"];
        options.total_frames = golden_.text("streaming") == "true" ? -1 : std::stoll(golden_.text("total_frames"));
        return tracker_.step(clip_.ops, clip_.features(action["frame"]), action["frame"], options);
    }

    test::Golden golden_;
    Json actions_;
    test::Clip clip_;
    ObjectTracker tracker_;
};

TEST_P(TrackerParity, IdsScoresAndMasksEqualTheReferencesOnEveryFrame) {
    const Tensor scores = golden_.tensor("scores");
    const std::vector<uint8_t> packed = golden_.bytes("masks");
    const size_t row_bytes = packed.size() / static_cast<size_t>(scores.numel());
    const double close_score = kTolerance + kSpreads * std::max(golden_.number("score_spread"), kLeastSpread);
    std::vector<Tensor> logits;
    int64_t row = 0;  // of all objects of all steps
    int64_t differing = 0;
    for (const Json& action : actions_) {
        if (action["do"] == "prompt") {
            prompt(action);
            continue;
        }
        const TrackedFrame answer = step(action);
        ASSERT_EQ(answer.ids, action["ids"].get<std::vector<int>>()) << action;
        for (size_t i = 0; i < answer.ids.size(); ++i, ++row) {
            EXPECT_NEAR(answer.object_score[i], scores.data<float>()[row], close_score) << action;
            const Tensor map = answer.masks.select(0, static_cast<int64_t>(i));
            if (answer.object_score[i] > 0) logits.push_back(map);
            const Mask mask =
                upsample_mask({map.data<float>(), static_cast<int>(map.dim(1)), static_cast<int>(map.dim(0))},
                              clip_.width(), clip_.height());
            const uint8_t* expected = packed.data() + static_cast<size_t>(row) * row_bytes;
            for (size_t k = 0; k < mask.data.size(); ++k)
                differing += ((expected[k / 8] >> (7 - k % 8)) & 1) != mask.data[k];
        }
    }
    EXPECT_EQ(row, scores.numel());
    EXPECT_LE(differing, static_cast<int64_t>(golden_.number("close_pixels")));
    Tensor all = Tensor::host(golden_.shape("logits"));
    ASSERT_EQ(static_cast<int64_t>(logits.size()), all.dim(0)) << "objects that are seen";
    float* out = all.data<float>();
    for (const Tensor& map : logits) out = std::copy_n(map.data<float>(), map.numel(), out);
    EXPECT_LE(golden_.error("logits", all), kTolerance);
}

INSTANTIATE_TEST_SUITE_P(SmallModel, TrackerParity,
                         testing::Values("points", "several-points", "box", "points-box", "mask", "two-objects",
                                         "three-objects", "refine", "correction", "mask-correction", "backward", "both",
                                         "disappears", "many-prompts", "streaming"),
                         [](const auto& test) {
                             std::string name = test.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

class TrackerStages : public TrackerParity {};

TEST_P(TrackerStages, TheMemorysPartsEqualTheReferences) {
    test::Traces traces;
    int64_t count = 0;
    for (const Json& action : actions_) {
        if (action["do"] == "prompt") {
            prompt(action);
            continue;
        }
        clip_.features(action["frame"]);
        if (count == static_cast<int64_t>(golden_.number("stage_step"))) traces.collect_from(clip_.ops);
        step(action);
        if (count++ == static_cast<int64_t>(golden_.number("stage_step"))) break;
    }
    EXPECT_LE(golden_.error("memory.conditioned", traces.joined("memory.conditioned")),
              kTolerance + kSpreads * golden_.number("conditioned_spread"));
    EXPECT_LE(golden_.error("memory.pointer", traces.joined("memory.pointer")), kTolerance);
    // A bf16 value may fall on the other side of a rounding: half a percent of itself.
    EXPECT_LE(golden_.error("memory.tokens", traces.all().at("memory.tokens").front()), 4e-3);
}

INSTANTIATE_TEST_SUITE_P(SmallModel, TrackerStages, testing::Values("points"));

}  // namespace
}  // namespace sam3
