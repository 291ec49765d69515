#include "eval/concept_score.h"

#include "eval/support.h"
#include "util/error.h"

#include <gtest/gtest.h>

namespace sam3 {
namespace {

using test::golden;
using test::golden_tracks;
using test::pointers;

void expect_figures(const ConceptFigures& actual, const nlohmann::json& expected) {
    const auto near = [&](double value, const std::string& name) {
        EXPECT_NEAR(value, expected.at(name).get<double>(), 1e-12) << name;
    };
    const auto overlaps = [&](const OverlapFigures& figures, const std::string& ending) {
        near(figures.cgf1, "cgf1" + ending);
        near(figures.precision, "precision" + ending);
        near(figures.recall, "recall" + ending);
        near(figures.f1, "f1" + ending);
        near(figures.positive_precision, "positive_precision" + ending);
        near(figures.positive_f1, "positive_f1" + ending);
        near(figures.positive_macro_f1, "positive_macro_f1" + ending);
    };
    overlaps(actual.mean, "");
    overlaps(actual.at50, "_50");
    overlaps(actual.at75, "_75");
    near(actual.il_precision, "il_precision");
    near(actual.il_recall, "il_recall");
    near(actual.il_f1, "il_f1");
    near(actual.il_fpr, "il_fpr");
    near(actual.il_mcc, "il_mcc");
    near(actual.mean_iou, "mean_iou");
    near(actual.absent_recognised, "absent_recognised");
}

TEST(ConceptScore, EqualsThePlainVersionOnImagesWithSeveralAnnotators) {
    ConceptScore score;
    for (const nlohmann::json& prompt : golden()["prompts"]) {
        const std::vector<Track> predicted = golden_tracks(prompt["predicted"], false);
        std::vector<PromptScore> scores;
        for (const nlohmann::json& annotator : prompt["truths"]) {
            const std::vector<Track> truth = golden_tracks(annotator, false);
            scores.push_back(score_prompt(pointers(predicted), pointers(truth)));
        }
        score.add(most_favourable(scores));
    }
    expect_figures(score.figures(), golden()["figures"]);
}

TEST(ConceptScore, EqualsThePlainVersionOnClips) {
    ConceptScore score;
    for (const nlohmann::json& clip : golden()["clips"]) {
        const std::vector<Track> predicted = golden_tracks(clip["predicted"], true);
        const std::vector<Track> truth = golden_tracks(clip["truth"], true);
        score.add(score_prompt(pointers(predicted), pointers(truth)));
        for (size_t i = 0; i < truth.size(); ++i)
            EXPECT_NEAR(track_iou(predicted[i], truth[i]), clip["iou"][i].get<double>(), 1e-15);
    }
    expect_figures(score.figures(), golden()["clip_figures"]);
}

// By hand: three phrases are there, two are not.
TEST(ConceptScore, CountsPromptsAndMasksAsInThePaper) {
    ConceptScore score;
    score.add({2, 2, {0.9, 0.6}});  // found, both right at 0.5
    score.add({1, 2, {0.8}});       // one right, one too many
    score.add({1, 0, {}});          // missed
    score.add({0, 1, {}});          // imagined
    score.add({0, 0, {}});          // rightly empty
    const ConceptFigures figures = score.figures();
    EXPECT_EQ(figures.prompts, 5);
    EXPECT_EQ(figures.absent, 2);
    EXPECT_EQ(figures.truths, 4);
    EXPECT_EQ(figures.predictions, 5);
    EXPECT_NEAR(figures.at50.precision, 3.0 / 5, 1e-4);
    EXPECT_NEAR(figures.at50.recall, 3.0 / 4, 1e-4);
    EXPECT_NEAR(figures.at50.positive_precision, 3.0 / 4, 1e-4);  // the imagined one does not count here
    EXPECT_NEAR(figures.at50.positive_f1, 0.75, 1e-4);
    EXPECT_NEAR(figures.at75.recall, 2.0 / 4, 1e-4);
    EXPECT_NEAR(figures.mean_iou, (0.9 + 0.6 + 0.8) / 3, 1e-12);
    EXPECT_NEAR(figures.absent_recognised, 0.5, 1e-12);
    EXPECT_NEAR(figures.il_mcc, (2.0 * 1 - 1.0 * 1) / 6.0, 1e-6);
    EXPECT_NEAR(figures.at50.cgf1, 0.75 / 6, 1e-4);
}

TEST(ConceptScore, AnOverlapEqualToTheThresholdCounts) {
    const PromptScore score{1, 1, {0.75}};
    EXPECT_EQ(score.matches(overlap_thresholds()[5]), 1);
    EXPECT_EQ(score.matches(overlap_thresholds()[6]), 0);
    EXPECT_EQ(overlap_thresholds()[5], 0.75);
    EXPECT_EQ(overlap_thresholds().back(), 0.95);
}

TEST(ConceptScore, AnAnnotatorWhoAgreesThatNothingIsThereIsTheMostFavourable) {
    const std::vector<PromptScore> scores = {{2, 0, {}}, {0, 0, {}}, {1, 0, {}}};
    EXPECT_TRUE(most_favourable(scores).nothing());
    const std::vector<PromptScore> found = {{2, 1, {0.6}}, {1, 1, {0.9}}, {0, 1, {}}};
    EXPECT_EQ(most_favourable(found).overlaps[0], 0.9);
    EXPECT_THROW(most_favourable({}), Error);
}

TEST(ConceptScore, NothingAtAllIsNotANumberlessResult) {
    const ConceptFigures figures = ConceptScore().figures();
    EXPECT_EQ(figures.mean.cgf1, 0);
    EXPECT_EQ(figures.mean_iou, 0);
    EXPECT_EQ(figures.absent_recognised, 1);
}

}  // namespace
}  // namespace sam3
