#include "formats/ground_truth.h"

#include "formats/eval_files.h"

namespace sam3 {
namespace {

using test::sentence_of;
using test::TestFolder;

TEST(GroundTruth, CocoIsAskedForTheCategoriesOfEachPicture) {
    const TestFolder folder;
    const GroundTruth truth = read_ground_truth(folder.write("gt.json", test::kCoco));
    EXPECT_FALSE(truth.video);
    ASSERT_EQ(truth.media.size(), 2U);
    EXPECT_EQ(truth.media[1].files, std::vector<std::string>{"a/two.png"});
    ASSERT_EQ(truth.objects.size(), 3U);
    EXPECT_TRUE(truth.objects[1].crowd);
    EXPECT_FALSE(truth.objects[1].clickable);
    EXPECT_EQ(truth.objects[2].track[0].counts, (std::vector<uint32_t>{2, 4, 2}));  // the polygon
    ASSERT_EQ(truth.prompts.size(), 2U);
    EXPECT_EQ(truth.prompts[0].phrase, "cat");
    EXPECT_EQ(truth.prompts[0].objects, std::vector<size_t>{0});  // not the crowd
    EXPECT_EQ(truth.prompts[1].phrase, "dog");
    ASSERT_EQ(truth.exemplars.size(), 2U);
    EXPECT_EQ(truth.exemplars[1].exemplar, (Box{1, 0, 3, 2}));
}

TEST(GroundTruth, PromptsAndExemplarsOfTheFileAreAskedInstead) {
    const TestFolder folder;
    GroundTruth truth = read_ground_truth(folder.write("gt.json", test::kPrompts));
    ASSERT_EQ(truth.prompts.size(), 3U);
    EXPECT_EQ(truth.prompts[0].phrase, "grey cat");
    EXPECT_EQ(truth.prompts[0].objects, std::vector<size_t>{0});  // not the crowd
    EXPECT_TRUE(truth.prompts[1].objects.empty());
    EXPECT_EQ(truth.prompts[2].media, 1U);
    ASSERT_EQ(truth.exemplars.size(), 1U);
    EXPECT_EQ(truth.exemplars[0].exemplar, (Box{1, 0, 3, 2}));
    keep_first(truth, 1);
    EXPECT_EQ(truth.media.size(), 1U);
    EXPECT_EQ(truth.prompts.size(), 2U);
    EXPECT_TRUE(truth.exemplars.empty());
    EXPECT_FALSE(truth.objects[2].clickable);
    EXPECT_TRUE(truth.objects[0].clickable);
}

TEST(GroundTruth, SaCoPairsOfOnePictureShareIt) {
    const TestFolder folder;
    const GroundTruth truth = read_ground_truth(folder.write("gold.json", test::kPairs));
    EXPECT_TRUE(truth.pairs);
    EXPECT_EQ(truth.media.size(), 2U);
    ASSERT_EQ(truth.prompts.size(), 3U);
    EXPECT_EQ(truth.prompts[0].id, 100);
    EXPECT_EQ(truth.prompts[0].objects, std::vector<size_t>{0});  // not the crowd
    EXPECT_EQ(truth.prompts[1].media, 0U);
    EXPECT_FALSE(truth.prompts[1].exhaustive);
    EXPECT_EQ(truth.prompts[2].media, 1U);
    EXPECT_EQ(rle_area(truth.objects[0].track[0]), 2);
}

TEST(GroundTruth, VEvalAsksItsPairsThePresentAndTheAbsent) {
    const TestFolder folder;
    const GroundTruth truth = read_ground_truth(folder.write("veval.json", test::kClips));
    EXPECT_TRUE(truth.video);
    EXPECT_EQ(truth.media[0].name, "walk");
    ASSERT_EQ(truth.objects.size(), 1U);  // its video_id is a string
    EXPECT_TRUE(truth.objects[0].track[1].counts.empty());
    ASSERT_EQ(truth.prompts.size(), 2U);
    EXPECT_EQ(truth.prompts[0].phrase, "dog");
    EXPECT_TRUE(truth.prompts[0].objects.empty());
    EXPECT_EQ(truth.prompts[1].objects, std::vector<size_t>{0});
}

std::string with(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
}

TEST(GroundTruth, DamageIsASentenceThatNamesTheFileAndThePlace) {
    const TestFolder folder;
    struct Case {
        std::string text, words;
    };
    const std::vector<Case> cases = {
        {"not JSON", "expected JSON"},
        {test::kCoco.substr(0, 200), "expected JSON"},
        {"[]", "\"images\" or \"videos\""},
        {"{}", "\"images\" or \"videos\""},
        {R"({"images": 3})", "expected a list"},
        {R"({"images": [3]})", "images[0]"},
        {with(test::kCoco, "\"id\": 9, ", ""), "images[1]: key 'id' not found"},
        {with(test::kCoco, "\"id\": 9,", "\"id\": 7,"), "two of images 7"},
        {with(test::kCoco, "\"width\": 4", "\"width\": -4"), "whole number"},
        {with(test::kCoco, "\"width\": 4", "\"width\": 1e300"), "whole number"},
        {with(test::kCoco, "\"width\": 4, \"height\": 2", "\"width\": 32000, \"height\": 32000"),
         "found 32000 x 32000"},
        {with(test::kCoco, "\"id\": 9,", "\"id\": 1e300,"), "images[1]: expected a number as the id"},
        {with(test::kCoco, "\"image_id\": 9", "\"image_id\": 8"), "annotations[2]: names image_id 8"},
        {with(test::kCoco, "[0, 2, 6]", "[0, 2, 5]"), "annotations[0]: expected RLE runs"},
        {with(test::kCoco, "[0, 2, 6]", "[0, -2, 10]"), "annotations[0]"},
        {with(test::kCoco, "[0, 2, 6]", "\"zz\""), "annotations[0]"},
        {with(test::kCoco, "[2, 4]", "[4, 2]"), "expected a mask of 4 x 2"},
        {with(test::kCoco, "[[1, 0, 3, 0,", "[["), "polygon"},
        {with(test::kCoco, "[[1, 0, 3,", "[[1e39, 0, 3,"), "annotations[2]"},
        {with(test::kCoco, "\"category_id\": 4", "\"category_id\": 5"), "no category 5"},
        {with(test::kCoco, "{\"id\": 2,", "{\"id\": 1,"), "two of annotations 1"},
        {with(test::kPrompts, "[1, 2]", "[1, 22]"), "prompts[0]: names annotation 22"},
        {with(test::kPrompts, "[1, 2]", "[3]"), "another picture"},
        {with(test::kPrompts, "[1, 0, 2, 2]", "[1, 0, 2]"), "exemplars[0]"},
        {with(test::kPairs, "\"width\": 4", "\"width\": 5"), "another size"},
        {with(test::kClips, ", null]", "]"), "each of the 2 frames, found 1"},
        {with(test::kClips, "\"video_id\": \"0\"", "\"video_id\": \"0x\""), "'0x'"},
        {with(test::kClips, "[\"walk/0.jpg\", \"walk/1.jpg\"]", "[]"), "at least one frame"},
    };
    for (const Case& one : cases) {
        const std::string path = folder.write("gt.json", one.text);
        const std::string sentence = sentence_of([&] { read_ground_truth(path); });
        EXPECT_EQ(sentence.rfind(path, 0), 0U) << sentence;
        EXPECT_NE(sentence.find(one.words), std::string::npos) << sentence << "\nexpected: " << one.words;
    }
}

}  // namespace
}  // namespace sam3
