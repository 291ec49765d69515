#pragma once

#include "media/image_io.h"
#include "util/error.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

// Files of the ground-truth and prediction tests.
namespace sam3::test {

// A folder of the running test's own, gone at its end.
class TestFolder {
public:
    explicit TestFolder(const std::string& part = "")
        : path_(testing::TempDir() + "sam3-" +
                testing::UnitTest::GetInstance()->current_test_info()->test_suite_name() + "-" +
                testing::UnitTest::GetInstance()->current_test_info()->name() + part) {
        std::filesystem::remove_all(path_);
        std::filesystem::create_directories(path_);
    }
    TestFolder(const TestFolder&) = delete;
    TestFolder& operator=(const TestFolder&) = delete;
    ~TestFolder() { std::filesystem::remove_all(path_); }

    std::string path() const { return path_; }
    std::string write(const std::string& name, const std::string& text) const {
        const std::string path = path_ + "/" + name;
        write_file(path, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
        return path;
    }

private:
    std::string path_;
};

template <typename Work>
std::string sentence_of(Work work) {
    try {
        work();
    } catch (const Error& error) {
        return error.what();
    }
    return "no failure";
}

// Two pictures of 4 x 2 pixels; masks by plain counts, columns from the left.
inline const std::string kTruth = R"({
 "images": [{"id": 7, "file_name": "a/one.png", "width": 4, "height": 2},
            {"id": 9, "file_name": "a/two.png", "width": 4, "height": 2}],
 "categories": [{"id": 3, "name": "cat"}, {"id": 4, "name": "dog"}],
 "annotations": [
  {"id": 1, "image_id": 7, "category_id": 3, "iscrowd": 0, "segmentation": {"size": [2, 4], "counts": [0, 2, 6]}},
  {"id": 2, "image_id": 7, "category_id": 3, "iscrowd": 1, "segmentation": {"size": [2, 4], "counts": [2, 2, 4]}},
  {"id": 3, "image_id": 9, "category_id": 4, "segmentation": [[1, 0, 3, 0, 3, 2, 1, 2]]}]
)";
inline const std::string kCoco = kTruth + "}";
inline const std::string kPrompts = kTruth + R"(,
 "prompts": [{"image_id": 7, "phrase": "grey cat", "annotation_ids": [1, 2]},
             {"image_id": 7, "phrase": "bird", "annotation_ids": []},
             {"image_id": 9, "phrase": "dog", "annotation_ids": [3]}],
 "exemplars": [{"image_id": 9, "bbox": [1, 0, 2, 2], "annotation_ids": [3]}]})";
inline const std::string kPairs = R"({
 "images": [{"id": 100, "file_name": "x.jpg", "text_input": "cat", "width": 4, "height": 2, "is_instance_exhaustive": 1},
            {"id": 101, "file_name": "x.jpg", "text_input": "dog", "width": 4, "height": 2, "is_instance_exhaustive": 0},
            {"id": 102, "file_name": "y.jpg", "text_input": "cat", "width": 4, "height": 2, "is_instance_exhaustive": 1}],
 "annotations": [{"id": 1, "image_id": 100, "category_id": 1, "iscrowd": 0, "bbox": [0, 0, 0.25, 1],
                  "segmentation": {"size": [2, 4], "counts": "026"}},
                 {"id": 2, "image_id": 100, "category_id": 1, "iscrowd": 1, "bbox": [0.5, 0, 0.5, 1],
                  "segmentation": {"size": [2, 4], "counts": [4, 4]}}],
 "categories": [{"id": 1, "name": "object"}]})";
inline const std::string kClips = R"({
 "videos": [{"id": 0, "video_name": "walk", "file_names": ["walk/0.jpg", "walk/1.jpg"], "width": 4, "height": 2, "length": 2}],
 "annotations": [{"id": 5, "video_id": "0", "category_id": 3, "noun_phrase": "cat", "iscrowd": 0,
                  "segmentations": [{"size": [2, 4], "counts": [0, 2, 6]}, null]}],
 "categories": [{"id": 3, "name": "cat"}, {"id": 4, "name": "dog"}],
 "video_np_pairs": [{"id": 1, "video_id": 0, "category_id": 4, "noun_phrase": "dog", "num_masklets": 0},
                    {"id": 2, "video_id": 0, "category_id": 3, "noun_phrase": "cat", "num_masklets": 1}]})";

}  // namespace sam3::test
