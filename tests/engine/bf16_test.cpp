// The model in the box in bf16, on the device of the tests, beside f32 on the CPU: the same objects with nearly the
// same masks and scores, for every kind of prompt. A GPU sees all scenes of tests/data/quality, or
// SAM3_TEST_SCENES of them, the CPU the first few.
//
// Masks of clicks are compared one by one, since which of the decoder's masks is the answer hangs on a rule with a
// threshold (how stable the single mask is) and on predicted qualities that may be equal: there, a change of any size
// in the input can change the choice. In f32 too: with one grey level of noise on the picture, the answers to clicks
// agree with those of the clean picture to 0.9968, in bf16 to 0.9988. Over a clip such choices add up, so for clips the
// limit is what that noise does.
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
#include <cstdlib>
#include <functional>
#include <iostream>

namespace sam3::test {
namespace {

constexpr float kThreshold = 0.5F;  // of detections
// Over all scenes, and over the first few, which have small objects: there a CPU reaches 0.9985 by phrases, a GPU's
// rounding 0.9986. A score this close to the threshold may fall on either side.
const char* const kFewScenes = std::getenv("SAM3_TEST_SCENES");
const double kLeastMeanIou = kFewScenes != nullptr || device_name() == "cpu" ? 0.998 : 0.999;
constexpr float kLeastIou = 0.98F;
constexpr float kScoreTolerance = 0.02F;
// Scores of a GPU move by 0.0003 to 0.0013 on the average (one grey level of noise on the pictures moves them by as
// much) and by 0.04 at most, where an object's score hangs in the balance; noise moves one by 0.057.
const double kMeanScoreTolerance = kFewScenes != nullptr || device_name() == "cpu" ? 0.004 : 0.002;
constexpr float kWorstScoreTolerance = 0.05F;

struct Answer {
    float score;
    Mask mask;
    int id = -1;  // to be compared with that of the same number; -1: with the one that it overlaps most
};
using Answers = std::vector<Answer>;  // to one prompt on one picture

// A session and the pictures that it is shown.
struct Attempt {
    std::shared_ptr<ImageSession> session;
    bool noise = false;

    Image picture(const GroundTruth::Media& media, size_t frame = 0) const;
};
using Work = std::function<std::vector<Answers>(const Attempt&)>;

std::shared_ptr<ImageSession> session_on(const std::string& device, const char* precision) {
    LoadOptions options;
    options.path = data_path("../../models/sam3-shapes.gguf");
    options.device = device;
    options.precision = precision;
    return std::make_shared<ImageSession>(Model::load(options), 2);
}

GroundTruth scenes(const std::string& name, size_t on_cpu) {
    GroundTruth truth = read_ground_truth(data_path("quality/" + name));
    if (kFewScenes != nullptr || device().is_host())
        keep_first(truth, kFewScenes != nullptr ? std::stoul(kFewScenes) : on_cpu);
    return truth;
}

// Every value one grey level up or down.
Image with_noise(Image image) {
    uint32_t state = 12345;
    for (uint8_t& value : image.pixels) {
        state = state * 1664525 + 1013904223;
        const int moved = value + ((state & 0x40000000U) != 0 ? 1 : -1);
        value = static_cast<uint8_t>(std::clamp(moved, 0, 255));
    }
    return image;
}

Image Attempt::picture(const GroundTruth::Media& media, size_t frame) const {
    const Image image = read_image(data_path("quality/" + media.files[frame]));
    return noise ? with_noise(image) : image;
}

VisualQuery click_on(const GroundTruth::Object& object) {
    const SimulatedClick click = first_click(rle_decode(object.track.front())).value();
    VisualQuery query;
    query.points.push_back({static_cast<float>(click.x), static_cast<float>(click.y), true});
    return query;
}

std::vector<Answers> find_all(const Attempt& attempt, const GroundTruth& truth,
                              const std::vector<GroundTruth::Prompt>& prompts) {
    std::vector<Answers> all;
    for (size_t media = 0; media < truth.media.size(); ++media) {
        const Image image = attempt.picture(truth.media[media]);
        attempt.session->encode({&image, 1});
        for (const GroundTruth::Prompt& asked : prompts) {
            if (asked.media != media) continue;
            ConceptPrompt prompt;
            prompt.text = asked.phrase;
            if (asked.exemplar) prompt.positive_boxes.push_back(*asked.exemplar);
            prompt.options.threshold = kThreshold;
            Answers& answers = all.emplace_back();
            const ConceptResult result = attempt.session->segment({&prompt, 1}).front();
            for (const Detection& found : result.detections) answers.push_back({found.score, found.mask});
        }
    }
    return all;
}

std::vector<Answers> click_all(const Attempt& attempt, const GroundTruth& truth) {
    std::vector<Answers> all;
    for (size_t media = 0; media < truth.media.size(); ++media) {
        const Image image = attempt.picture(truth.media[media]);
        attempt.session->encode({&image, 1});
        for (const GroundTruth::Object& object : truth.objects) {
            if (object.media != media || !object.clickable) continue;
            VisualQuery query = click_on(object);
            query.multimask = true;
            const VisualAnswer answer = attempt.session->segment({&query, 1}).front();
            Answers& answers = all.emplace_back();
            for (const VisualCandidate& mask : answer.candidates) answers.push_back({mask.iou, mask.mask, mask.index});
        }
    }
    return all;
}

void collect(const std::vector<VideoFrameResult>& frames, bool with_ids, std::vector<Answers>& all) {
    for (const VideoFrameResult& frame : frames) {
        Answers& answers = all.emplace_back();
        for (const VideoObject& object : frame.objects)
            answers.push_back({object.score, object.mask, with_ids ? object.id : -1});
    }
}

std::vector<Answers> follow_phrases(const Attempt& attempt, const GroundTruth& truth) {
    std::vector<Answers> all;
    for (const GroundTruth::Prompt& prompt : truth.prompts) {
        const GroundTruth::Media& clip = truth.media[prompt.media];
        ConceptVideoOptions options;
        options.phrases = {prompt.phrase};
        options.rules = attempt.session->model().video_rules();
        options.total_frames = static_cast<int64_t>(clip.files.size());
        ConceptTracker tracker(attempt.session, options);
        for (size_t i = 0; i < clip.files.size(); ++i) collect(tracker.push(attempt.picture(clip, i)), false, all);
        collect(tracker.finish(), false, all);
    }
    return all;
}

std::vector<Answers> follow_clicks(const Attempt& attempt, const GroundTruth& truth) {
    std::vector<Answers> all;
    for (size_t media = 0; media < truth.media.size(); ++media) {
        VisualTracker tracker(attempt.session, {});
        const GroundTruth::Media& clip = truth.media[media];
        for (size_t i = 0; i < truth.objects.size(); ++i)
            if (truth.objects[i].media == media && truth.objects[i].clickable)
                tracker.prompt(attempt.picture(clip), 0, static_cast<int>(i), click_on(truth.objects[i]));
        for (size_t i = 0; i < clip.files.size(); ++i)
            collect({tracker.track(attempt.picture(clip, i), static_cast<int64_t>(i))}, true, all);
    }
    return all;
}

struct Limits {
    double mean_iou = kLeastMeanIou;
    float least_iou = kLeastIou;
    double others = 0;  // share of the objects that may be below kLeastIou
};
// A tracker takes the best of three masks by their predicted qualities. In one clip two of them differ by 3e-5 of 0.96
// on the last frames, and by a rim of one pixel: which is taken, the last bit of anything decides.
const Limits kChosenAgain{.least_iou = 0.95F, .others = 0.02};

// How the answers to one prompt agree; every object of `wanted` looks for the one that it overlaps most.
class Agreement {
public:
    void compare(const Answers& wanted, const Answers& found) {
        for (const Answer& one : wanted) {
            const Answer* const match = best_match(one, found);
            const float iou = match == nullptr ? 0.0F : overlap(one.mask, match->mask);
            if (one.id < 0 && iou < 0.5F) {
                unsure_ += near_threshold(one) ? 1 : 0;
                lost_ += near_threshold(one) ? 0 : 1;
                continue;
            }
            objects_ += 1;
            iou_sum_ += static_cast<double>(iou);
            if (one.score > kThreshold) {  // others are not even the model's choice
                least_iou_ = std::min(least_iou_, iou);
                others_ += iou < kLeastIou ? 1 : 0;
            }
            if (match == nullptr) continue;
            worst_score_ = std::max(worst_score_, std::abs(one.score - match->score));
            score_sum_ += static_cast<double>(std::abs(one.score - match->score));
        }
    }
    double mean_score() const { return score_sum_ / static_cast<double>(std::max<int64_t>(objects_, 1)); }
    double mean_iou() const { return iou_sum_ / static_cast<double>(std::max<int64_t>(objects_, 1)); }
    void expect_good(const std::string& what, const Limits& limits) const {
        std::cout << what << ": " << objects_ << " objects, mean IoU " << mean_iou() << ", least " << least_iou_ << ", "
                  << others_ << " below " << kLeastIou << ", scores differ by " << mean_score() << " and at most "
                  << worst_score_ << ", " << lost_ << " lost, " << unsure_ << " at the threshold\n";
        EXPECT_GT(objects_, 0) << what;
        EXPECT_EQ(lost_, 0) << what;
        EXPECT_LE(unsure_, 1 + objects_ / 50) << what;
        EXPECT_GE(mean_iou(), limits.mean_iou) << what;
        EXPECT_GE(least_iou_, limits.least_iou) << what;
        EXPECT_LE(static_cast<double>(others_), limits.others * static_cast<double>(objects_)) << what;
        EXPECT_LE(mean_score(), kMeanScoreTolerance) << what;
        EXPECT_LE(worst_score_, kWorstScoreTolerance) << what;
    }

private:
    static float overlap(const Mask& a, const Mask& b) {
        const bool empty = mask_bounds(a).empty() && mask_bounds(b).empty();  // an object that is hidden
        return empty ? 1.0F : mask_overlap(a, b);
    }
    static bool near_threshold(const Answer& answer) { return std::abs(answer.score - kThreshold) <= kScoreTolerance; }
    static const Answer* best_match(const Answer& one, const Answers& found) {
        if (one.id >= 0) {
            const auto same = [&](const Answer& answer) { return answer.id == one.id; };
            const auto place = std::find_if(found.begin(), found.end(), same);
            return place == found.end() ? nullptr : &*place;
        }
        const auto closer = [&](const Answer& a, const Answer& b) {
            return overlap(one.mask, a.mask) < overlap(one.mask, b.mask);
        };
        const auto best = std::max_element(found.begin(), found.end(), closer);
        return best == found.end() ? nullptr : &*best;
    }

    int64_t objects_ = 0, lost_ = 0, unsure_ = 0, others_ = 0;
    double iou_sum_ = 0;
    double score_sum_ = 0;
    float least_iou_ = 1, worst_score_ = 0;
};

Agreement agreement(const std::vector<Answers>& some, const std::vector<Answers>& others) {
    EXPECT_EQ(some.size(), others.size());
    Agreement result;
    for (size_t i = 0; i < std::min(some.size(), others.size()); ++i) {
        result.compare(some[i], others[i]);
        result.compare(others[i], some[i]);
    }
    return result;
}

void expect_agreement(const std::string& what, const Work& work, const Limits& limits = {}) {
    const std::vector<Answers> exact = work({session_on("cpu", "f32")});
    const std::vector<Answers> rounded = work({session_on(device_name(), "bf16")});
    agreement(exact, rounded).expect_good(what, limits);
}

void expect_less_than_noise(const std::string& what, const Work& work) {
    const std::vector<Answers> exact = work({session_on("cpu", "f32")});
    const std::vector<Answers> rounded = work({session_on(device_name(), "bf16")});
    const double noise = agreement(exact, work({session_on(device_name(), "f32"), true})).mean_iou();
    std::cout << what << ", f32 with one grey level of noise: mean IoU " << noise << "\n";
    agreement(exact, rounded).expect_good(what, {std::min(noise, kLeastMeanIou), 0, 1});
}

TEST(Bf16, FindsTheSameObjectsByPhrase) {
    const GroundTruth truth = scenes("images.json", 3);
    expect_agreement("phrases", [&](const Attempt& attempt) { return find_all(attempt, truth, truth.prompts); });
}

TEST(Bf16, FindsTheSameObjectsByExemplar) {
    const GroundTruth truth = scenes("images.json", 2);
    expect_agreement("exemplars", [&](const Attempt& attempt) { return find_all(attempt, truth, truth.exemplars); });
}

TEST(Bf16, OutlinesTheSameObjectsByClick) {
    const GroundTruth truth = scenes("images.json", 2);
    expect_agreement("clicks", [&](const Attempt& attempt) { return click_all(attempt, truth); });
}

TEST(Bf16, FollowsTheSameObjectsByPhrase) {
    if (device().is_host()) GTEST_SKIP() << "a minute on a CPU; set SAM3_TEST_DEVICE=cuda";
    const GroundTruth truth = scenes("clips.json", 1);
    const Work work = [&](const Attempt& attempt) { return follow_phrases(attempt, truth); };
    expect_agreement("video by phrase", work, kChosenAgain);
}

TEST(Bf16, FollowsTheSameObjectsByClick) {
    if (device().is_host()) GTEST_SKIP() << "a minute on a CPU; set SAM3_TEST_DEVICE=cuda";
    const GroundTruth truth = scenes("clips.json", 1);
    expect_less_than_noise("video by click", [&](const Attempt& attempt) { return follow_clicks(attempt, truth); });
}

}  // namespace
}  // namespace sam3::test
