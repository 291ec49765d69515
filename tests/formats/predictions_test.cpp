#include "formats/predictions.h"

#include "formats/eval_files.h"
#include "formats/segmentation.h"
#include "formats/tracks.h"

namespace sam3 {
namespace {

using test::sentence_of;
using test::TestFolder;

Rle left_half() { return rle_from_counts({0, 4, 4}, 4, 2); }

void expect_round_trip(const TestFolder& folder, const std::string& text, Asked asked,
                       const std::vector<Prediction>& predictions) {
    GroundTruth truth = read_ground_truth(folder.write("gt.json", text));
    const std::string path = folder.write("results.json", to_results(predictions, asked, truth));
    const size_t prompts = truth.prompts.size();
    const std::vector<Prediction> back = read_predictions(path, asked, truth);
    ASSERT_EQ(back.size(), predictions.size());
    for (size_t i = 0; i < back.size(); ++i) {
        EXPECT_EQ(back[i].subject, predictions[i].subject);
        EXPECT_EQ(back[i].clicks, predictions[i].clicks);
        EXPECT_EQ(back[i].score, predictions[i].score);
        EXPECT_EQ(back[i].track, predictions[i].track);
    }
    EXPECT_EQ(truth.prompts.size(), prompts);
}

TEST(Predictions, ComeBackAsTheyWereWrittenInEveryLayout) {
    const TestFolder folder;
    const std::vector<Prediction> two = {{1, 0, 0.1F, {left_half()}}, {0, 0, 0.7F, {left_half()}}};
    expect_round_trip(folder, test::kCoco, Asked::phrases, two);
    expect_round_trip(folder, test::kPrompts, Asked::phrases, two);
    expect_round_trip(folder, test::kPairs, Asked::phrases, two);
    expect_round_trip(folder, test::kPrompts, Asked::exemplars, {{0, 0, 0.3F, {left_half()}}});
    expect_round_trip(folder, test::kPrompts, Asked::objects,
                      {{2, 1, 0.3F, {left_half()}}, {2, 2, 0.3F, {left_half()}}});
    expect_round_trip(folder, test::kClips, Asked::phrases, {{1, 0, 0.3F, {left_half(), Rle()}}});
    expect_round_trip(folder, test::kClips, Asked::objects, {{0, 1, 1.0F, {Rle(), left_half()}}});
    expect_round_trip(folder, test::kPrompts, Asked::phrases, {});
}

TEST(Predictions, APhraseThatNobodyAskedForIsOneMoreAbsentConcept) {
    const TestFolder folder;
    GroundTruth truth = read_ground_truth(folder.write("gt.json", test::kCoco));
    const std::string path = folder.write(
        "results.json",
        R"([{"image_id": 7, "category_id": 4, "score": 0.5, "segmentation": {"size": [2, 4], "counts": [0, 4, 4]}}])");
    EXPECT_EQ(read_predictions(path, Asked::phrases, truth).front().subject, 2U);
    ASSERT_EQ(truth.prompts.size(), 3U);
    EXPECT_TRUE(truth.prompts[2].objects.empty());
}

Segmentation on(const std::string& file, const std::vector<std::string>& phrases) {
    Segmentation out;
    out.file = file;
    out.width = 4;
    out.height = 2;
    for (const std::string& phrase : phrases) out.prompts.push_back({phrase, 1.0F, {}});
    return out;
}

TEST(Predictions, AFolderOfSegmentJsonIsReadByNameAndPhrase) {
    const TestFolder folder, results("-results");
    GroundTruth truth = read_ground_truth(folder.write("gt.json", test::kPrompts));
    Segmentation one = on("elsewhere/one.png", {"grey cat", "bird"});
    one.instances.push_back({"grey cat", 0, 0.8F, 0, 0, 2, 2, rle_decode(left_half())});
    results.write("one.json", to_json(one));
    const auto read = [&] { return read_predictions(results.path(), Asked::phrases, truth); };
    EXPECT_NE(sentence_of(read).find("nothing was predicted for a/two.png (1 of 2 were)"), std::string::npos);
    results.write("two.json", to_json(on("two.png", {"cat"})));
    EXPECT_NE(sentence_of(read).find("was not asked for 'dog'"), std::string::npos);
    results.write("two.json", to_json(on("two.png", {"dog", "bird"})));
    const std::vector<Prediction> predictions = read();
    ASSERT_EQ(predictions.size(), 1U);
    EXPECT_EQ(predictions[0].subject, 0U);
    EXPECT_EQ(predictions[0].score, 0.8F);
    EXPECT_EQ(predictions[0].track, Track{left_half()});
    results.write("three.json", to_json(on("three.png", {})));
    EXPECT_NE(sentence_of(read).find("'three.png'"), std::string::npos);
}

TEST(Predictions, TheLinesOfTrackAreReadByTheNameOfTheClip) {
    const TestFolder folder;
    GroundTruth truth = read_ground_truth(folder.write("gt.json", test::kClips));
    TrackedObjects first{0, 4, 2, {{5, "cat", 0.9F, 0, 0, 2, 2, rle_decode(left_half())}}};
    TrackedObjects second{1, 4, 2, {}};
    const std::string path = folder.write("walk.jsonl", to_json_line(first) + to_json_line(second));
    const std::vector<Prediction> predictions = read_predictions(path, Asked::phrases, truth);
    ASSERT_EQ(predictions.size(), 1U);
    EXPECT_EQ(predictions[0].subject, 1U);
    EXPECT_EQ(predictions[0].track, (Track{left_half(), Rle()}));
    second.frame = 2;
    folder.write("walk.jsonl", to_json_line(second));
    EXPECT_NE(sentence_of([&] { read_predictions(path, Asked::phrases, truth); }).find("frame 2 is outside"),
              std::string::npos);
    second = {1, 2, 4, {}};
    folder.write("walk.jsonl", to_json_line(second));
    EXPECT_NE(sentence_of([&] { read_predictions(path, Asked::phrases, truth); }).find("found 2 x 4"),
              std::string::npos);
}

TEST(Predictions, DamageIsASentenceThatNamesTheFileAndThePlace) {
    const TestFolder folder;
    const std::string mask = R"("segmentation": {"size": [2, 4], "counts": [0, 4, 4]}})";
    struct Case {
        std::string text, words;
        Asked asked = Asked::phrases;
    };
    const std::vector<Case> cases = {
        {"nothing", "expected JSON"},
        {"3", "expected a list of results"},
        {"[3]", "[0]"},
        {R"([{"image_id": 8, "prompt_id": 0, "score": 1, )" + mask + "]", "names image_id 8"},
        {R"([{"image_id": 7, "prompt_id": 8, "score": 1, )" + mask + "]", "names prompt_id 8"},
        {R"([{"image_id": 9, "prompt_id": 0, "score": 1, )" + mask + "]", "another image_id"},
        {R"([{"image_id": 7, "prompt_id": 0, )" + mask + "]", "key 'score' not found"},
        {R"([{"image_id": 7, "prompt_id": 0, "score": "high", )" + mask + "]", "[0]"},
        {R"([{"image_id": 7, "annotation_id": 1, "score": 1, )" + mask + "]", "--task click"},
        {R"([{"image_id": 7, "annotation_id": 99, "score": 1, )" + mask + "]", "annotation 99", Asked::objects},
        {R"([{"image_id": 7, "prompt_id": 0, "score": 1, )" + mask + "]", "annotation_id", Asked::objects},
        {"{}", "sam3 eval -o", Asked::exemplars},
        {"{}", "key 'image' not found"},
    };
    for (const Case& one : cases) {
        GroundTruth truth = read_ground_truth(folder.write("gt.json", test::kPrompts));
        const std::string path = folder.write("results.json", one.text);
        const std::string sentence = sentence_of([&] { read_predictions(path, one.asked, truth); });
        EXPECT_EQ(sentence.rfind(path, 0), 0U) << sentence;
        EXPECT_NE(sentence.find(one.words), std::string::npos) << sentence << "\nexpected: " << one.words;
    }
}

}  // namespace
}  // namespace sam3
