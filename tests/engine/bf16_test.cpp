// The model in the box in bf16, on the device of the tests, beside f32 on the CPU: the same objects with nearly the
// same masks and scores, for every kind of prompt. A GPU sees all scenes of tests/data/quality, the CPU the first few.
#include "engine/concept_tracker.h"
#include "engine/visual_tracker.h"
#include "eval/clicks.h"
#include "formats/ground_truth.h"
#include "media/image_io.h"
#include "support/data_path.h"
#include "support/device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>

namespace sam3::test {
namespace {

constexpr float kThreshold = 0.5F;  // of detections
// What a GPU is to reach (docs/performance.md says what it does), and what a CPU does on the few objects that it is
// asked for: 0.9985 by phrases, 0.9994 by exemplars, 0.9997 by clicks. A score this close to the threshold may fall on
// either side.
const double kLeastMeanIou = device_name() == "cpu" ? 0.998 : 0.999;
constexpr float kLeastIou = 0.98F;
constexpr float kScoreTolerance = 0.02F;

struct Answer {
    float score;
    Mask mask;
};
using Answers = std::vector<Answer>;  // to one prompt on one picture
using Work = std::function<std::vector<Answers>(const std::shared_ptr<ImageSession>&)>;

std::shared_ptr<ImageSession> session_on(const std::string& device, const char* precision) {
    LoadOptions options;
    options.path = data_path("../../models/sam3-shapes.gguf");
    options.device = device;
    options.precision = precision;
    return std::make_shared<ImageSession>(Model::load(options), 2);
}

GroundTruth scenes(const std::string& name, size_t on_cpu) {
    GroundTruth truth = read_ground_truth(data_path("quality/" + name));
    if (device().is_host()) keep_first(truth, on_cpu);
    return truth;
}

Image picture(const GroundTruth::Media& media, size_t frame = 0) {
    return read_image(data_path("quality/" + media.files[frame]));
}

VisualQuery click_on(const GroundTruth::Object& object) {
    const SimulatedClick click = first_click(rle_decode(object.track.front())).value();
    VisualQuery query;
    query.points.push_back({static_cast<float>(click.x), static_cast<float>(click.y), true});
    return query;
}

std::vector<Answers> find_all(ImageSession& session, const GroundTruth& truth,
                              const std::vector<GroundTruth::Prompt>& prompts) {
    std::vector<Answers> all;
    for (size_t media = 0; media < truth.media.size(); ++media) {
        const Image image = picture(truth.media[media]);
        session.encode({&image, 1});
        for (const GroundTruth::Prompt& asked : prompts) {
            if (asked.media != media) continue;
            ConceptPrompt prompt;
            prompt.text = asked.phrase;
            if (asked.exemplar) prompt.positive_boxes.push_back(*asked.exemplar);
            prompt.options.threshold = kThreshold;
            Answers& answers = all.emplace_back();
            const ConceptResult result = session.segment({&prompt, 1}).front();
            for (const Detection& found : result.detections) answers.push_back({found.score, found.mask});
        }
    }
    return all;
}

std::vector<Answers> click_all(ImageSession& session, const GroundTruth& truth) {
    std::vector<Answers> all;
    for (size_t media = 0; media < truth.media.size(); ++media) {
        const Image image = picture(truth.media[media]);
        session.encode({&image, 1});
        for (const GroundTruth::Object& object : truth.objects) {
            if (object.media != media || !object.clickable) continue;
            const VisualQuery query = click_on(object);
            const VisualCandidate best = session.segment({&query, 1}).front().candidates.front();
            all.push_back({{best.iou, best.mask}});
        }
    }
    return all;
}

void collect(const std::vector<VideoFrameResult>& frames, std::vector<Answers>& all) {
    for (const VideoFrameResult& frame : frames) {
        Answers& answers = all.emplace_back();
        for (const VideoObject& object : frame.objects) answers.push_back({object.score, object.mask});
    }
}

std::vector<Answers> follow_phrases(const std::shared_ptr<ImageSession>& session, const GroundTruth& truth) {
    std::vector<Answers> all;
    for (const GroundTruth::Prompt& prompt : truth.prompts) {
        const GroundTruth::Media& clip = truth.media[prompt.media];
        ConceptVideoOptions options;
        options.phrases = {prompt.phrase};
        options.rules = session->model().video_rules();
        options.total_frames = static_cast<int64_t>(clip.files.size());
        ConceptTracker tracker(session, options);
        for (size_t i = 0; i < clip.files.size(); ++i) collect(tracker.push(picture(clip, i)), all);
        collect(tracker.finish(), all);
    }
    return all;
}

std::vector<Answers> follow_clicks(const std::shared_ptr<ImageSession>& session, const GroundTruth& truth) {
    std::vector<Answers> all;
    for (size_t media = 0; media < truth.media.size(); ++media) {
        VisualTracker tracker(session, {});
        const GroundTruth::Media& clip = truth.media[media];
        for (size_t i = 0; i < truth.objects.size(); ++i)
            if (truth.objects[i].media == media && truth.objects[i].clickable)
                tracker.prompt(picture(clip), 0, static_cast<int>(i), click_on(truth.objects[i]));
        for (size_t i = 0; i < clip.files.size(); ++i)
            collect({tracker.track(picture(clip, i), static_cast<int64_t>(i))}, all);
    }
    return all;
}

// How the answers to one prompt agree; every object of `wanted` looks for the one that it overlaps most.
class Agreement {
public:
    void compare(const Answers& wanted, const Answers& found) {
        for (const Answer& one : wanted) {
            const Answer* const match = best_match(one, found);
            const float iou = match == nullptr ? 0.0F : overlap(one.mask, match->mask);
            if (iou < 0.5F) {
                unsure_ += near_threshold(one) ? 1 : 0;
                lost_ += near_threshold(one) ? 0 : 1;
                continue;
            }
            objects_ += 1;
            iou_sum_ += static_cast<double>(iou);
            least_iou_ = std::min(least_iou_, iou);
            worst_score_ = std::max(worst_score_, std::abs(one.score - match->score));
        }
    }
    void expect_good(const std::string& what) const {
        const double mean = iou_sum_ / static_cast<double>(std::max<int64_t>(objects_, 1));
        std::cout << what << ": " << objects_ << " objects, mean IoU " << mean << ", least " << least_iou_
                  << ", scores differ by at most " << worst_score_ << ", " << lost_ << " lost, " << unsure_
                  << " at the threshold\n";
        EXPECT_GT(objects_, 0) << what;
        EXPECT_EQ(lost_, 0) << what;
        EXPECT_LE(unsure_, 1 + objects_ / 50) << what;
        EXPECT_GE(mean, kLeastMeanIou) << what;
        EXPECT_GE(least_iou_, kLeastIou) << what;
        EXPECT_LE(worst_score_, kScoreTolerance) << what;
    }

private:
    static float overlap(const Mask& a, const Mask& b) {
        const bool empty = mask_bounds(a).empty() && mask_bounds(b).empty();  // an object that is hidden
        return empty ? 1.0F : mask_overlap(a, b);
    }
    static bool near_threshold(const Answer& answer) { return std::abs(answer.score - kThreshold) <= kScoreTolerance; }
    static const Answer* best_match(const Answer& one, const Answers& found) {
        const auto closer = [&](const Answer& a, const Answer& b) {
            return overlap(one.mask, a.mask) < overlap(one.mask, b.mask);
        };
        const auto best = std::max_element(found.begin(), found.end(), closer);
        return best == found.end() ? nullptr : &*best;
    }

    int64_t objects_ = 0, lost_ = 0, unsure_ = 0;
    double iou_sum_ = 0;
    float least_iou_ = 1, worst_score_ = 0;
};

void expect_agreement(const std::string& what, const Work& work) {
    const std::vector<Answers> exact = work(session_on("cpu", "f32"));
    const std::vector<Answers> rounded = work(session_on(device_name(), "bf16"));
    ASSERT_EQ(exact.size(), rounded.size());
    Agreement agreement;
    for (size_t i = 0; i < exact.size(); ++i) {
        agreement.compare(exact[i], rounded[i]);
        agreement.compare(rounded[i], exact[i]);
    }
    agreement.expect_good(what);
}

TEST(Bf16, FindsTheSameObjectsByPhrase) {
    const GroundTruth truth = scenes("images.json", 3);
    expect_agreement("phrases", [&](const auto& session) { return find_all(*session, truth, truth.prompts); });
}

TEST(Bf16, FindsTheSameObjectsByExemplar) {
    const GroundTruth truth = scenes("images.json", 2);
    expect_agreement("exemplars", [&](const auto& session) { return find_all(*session, truth, truth.exemplars); });
}

TEST(Bf16, OutlinesTheSameObjectsByClick) {
    const GroundTruth truth = scenes("images.json", 2);
    expect_agreement("clicks", [&](const auto& session) { return click_all(*session, truth); });
}

TEST(Bf16, FollowsTheSameObjectsByPhrase) {
    if (device().is_host()) GTEST_SKIP() << "a minute on a CPU; set SAM3_TEST_DEVICE=cuda";
    const GroundTruth truth = scenes("clips.json", 1);
    expect_agreement("video by phrase", [&](const auto& session) { return follow_phrases(session, truth); });
}

TEST(Bf16, FollowsTheSameObjectsByClick) {
    if (device().is_host()) GTEST_SKIP() << "a minute on a CPU; set SAM3_TEST_DEVICE=cuda";
    const GroundTruth truth = scenes("clips.json", 1);
    expect_agreement("video by click", [&](const auto& session) { return follow_clicks(session, truth); });
}

}  // namespace
}  // namespace sam3::test
