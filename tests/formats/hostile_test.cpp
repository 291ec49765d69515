#include "formats/record_files.h"
#include "formats/records.h"
#include "formats/result_formats.h"
#include "media/image_io.h"
#include "util/atomic_file.h"
#include "util/error.h"

#include <gtest/gtest.h>

#include <functional>

namespace sam3 {
namespace {

using test::Folder;

struct Hostile {
    const char* format;
    const char* file;
    std::string text;
    const char* words;  // that the sentence has
};

std::string coco(const std::string& images, const std::string& annotations) {
    return R"({"categories":[{"id":1,"name":"x"}],"images":[)" + images + R"(],"annotations":[)" + annotations + "]}";
}

std::string many(const std::string& text, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += (i == 0 ? "" : ",") + text;
    return out;
}

const std::string kImage = R"({"id":1,"file_name":"a.jpg","width":8,"height":4})";
const std::string kHuge = R"({"id":1,"file_name":"a.jpg","width":16384,"height":16384})";

std::vector<Hostile> hostile_files() {
    const std::string shape = R"({"imagePath":"a","imageWidth":8,"imageHeight":4,"shapes":[)";
    const std::string head = R"({"image":{"file":"a","width":8,"height":4},"prompts":[],"detections":[)";
    const std::string full =
        R"({"image_id":1,"category_id":1,"segmentation":{"size":[16384,16384],"counts":[268435456]}})";
    return {
        {"coco", "a.json", "[", "expected JSON"},
        {"coco", "a.json", "{}", "images"},
        {"coco", "a.json", coco(R"({"id":1,"file_name":"a","width":2000000000,"height":2})", ""), "32768"},
        {"coco", "a.json", coco(R"({"id":1,"file_name":"a","width":1e300,"height":2})", ""), "whole number"},
        {"coco", "a.json", coco(R"({"id":1,"file_name":"a","width":32768,"height":32768})", ""), "268435456"},
        {"coco", "a.json", coco(kImage, R"({"image_id":2})"), "image_id 2"},
        {"coco", "a.json", coco(kImage, R"({"image_id":1,"category_id":7})"), "category 7"},
        {"coco", "a.json",
         coco(kImage, R"({"image_id":1,"category_id":1,"segmentation":{"size":[4,8],"counts":"oooooooooo"}})"), "RLE"},
        {"coco", "a.json",
         coco(kImage, R"({"image_id":1,"category_id":1,"segmentation":{"size":[4,8],"counts":[4294967295,33]}})"),
         "whole number"},
        {"coco", "a.json",
         coco(kImage, R"({"image_id":1,"category_id":1,"segmentation":{"size":[9,9],"counts":[81]}})"), "8 x 4"},
        {"coco", "a.json", coco(kImage, R"({"image_id":1,"category_id":1,"segmentation":[[0,0,1e300,0,0,1e300]]})"),
         "finite"},
        {"coco", "a.json", coco(kImage, R"({"image_id":1,"category_id":1,"segmentation":[[0,0,1]]})"), "three points"},
        {"coco", "a.json", coco(kHuge, many(full, 2)), "64 MiB"},
        {"yolo", "labels/a.txt", "0 nan 0 1 0 1 1\n", "finite"},
        {"yolo", "labels/a.txt", "0 0.5 0.5 0.1 0.1\n", "detection"},
        {"yolo", "labels/a.txt", "x 0 0 1 0 1 1\n", "number of a class"},
        {"yolo", "labels/a.txt", "0 0 0 1 0 1\n", "5 numbers"},
        {"labelme", "a.json", shape + R"({"label":"x","points":[[0,0],[1e39,0],[1,1]]}]})", "finite"},
        {"labelme", "a.json", shape + R"({"label":"x","points":[[0,0]],"shape_type":"point"}]})", "at least"},
        {"labelme", "a.json", shape + R"({"label":"x","points":[[0,0],[1,1]],"shape_type":"line"}]})", "no area"},
        {"labelme", "a.json", shape + R"({"label":"x","points":[[0,0],[1,1]],"shape_type":"mask","mask":"aGVsbG8="}]})",
         "PNG"},
        {"labelme", "a.json", R"({"imagePath":"a","imageWidth":-8,"imageHeight":4,"shapes":[]})", "whole number"},
        {"mots", "a.txt", "0 1001 1 4 8 oooooooooo\n", "RLE"},
        {"mots", "a.txt", "0 1001 1 2000000000 2000000000 P\n", "32768"},
        {"mots", "a.txt", "0 99999999999999999999 1 4 8 P1\n", "expected 'frame id class"},
        {"mots", "a.txt", "-1 1001 1 4 8 P1\n", "expected 'frame id class"},
        {"mots", "a.txt", "1 1001 1 4 8 P1\n0 1001 1 4 8 P1\n", "ascending"},
        {"jsonl", "a.jsonl", "{\"frame\":0,\"width\":8}\n", "line 1"},
        {"jsonl", "a.jsonl", "\n\n{\"image\":7}\n", "line 3"},
        {"json", "a.json", head + R"({"id":0,"label":"x","prompt":9,"score":1,"box":[0,0,1,1],"mask":{}}]})",
         "prompt 9"},
        {"json", "a.json", head + R"({"id":0,"label":"x","prompt":0,"score":1,"box":[0,0,1],"mask":{}}]})", "four"},
        {"json", "a.json", R"({"image":{"file":"a","width":99999,"height":1},"prompts":[],"detections":[]})", "32768"},
        {"ytvis", "a.json",
         R"({"categories":[],"videos":[{"id":1,"width":8,"height":4,"file_names":["a","b"]}],)"
         R"("annotations":[{"video_id":1,"segmentations":[null]}]})",
         "each of the 2 frames"},
        {"davis", "a.png", "not a picture", "PNG"},
    };
}

TEST(Hostile, FilesAreRefusedWithASentenceThatNamesThem) {
    for (const Hostile& hostile : hostile_files()) {
        SCOPED_TRACE(std::string(hostile.format) + ": " + hostile.text.substr(0, 200));
        const Folder folder;
        std::filesystem::create_directories(folder / "labels");
        std::filesystem::create_directories(folder / "images");
        write_image(folder / "images/a.png", Image(8, 4, 3));
        write_file_atomically(folder / hostile.file, hostile.text);
        const std::string path = std::string(hostile.format) == "yolo" ? folder.path() : folder / hostile.file;
        std::string sentence;
        try {
            const auto reader =
                record_reader(result_format(hostile.format), path, {.most_mask_bytes = int64_t{64} << 20});
            Segmentation record;
            while (reader->next(record)) {
            }
        } catch (const Error& error) {
            sentence = error.what();
        }
        EXPECT_EQ(sentence.find(folder.path()), 0U) << sentence;
        EXPECT_NE(sentence.find(hostile.words), std::string::npos) << sentence << "\nexpected: " << hostile.words;
    }
}

TEST(Hostile, NamesOfPicturesDoNotLeaveTheFolder) {
    const Folder folder;
    const auto writer = dataset_writer(result_format("yolo"), folder / "yolo");
    writer->add(test::still("../../../escaped.jpg"));
    std::vector<Segmentation> clip = test::clip("../../escaped", 1);
    writer->add(clip[0]);
    writer->finish();
    EXPECT_TRUE(std::filesystem::exists(folder / "yolo/labels/escaped.txt"));
    EXPECT_TRUE(std::filesystem::exists(folder / "yolo/labels/escaped/00000.txt"));
    const auto mots = dataset_writer(result_format("mots"), folder / "mots");
    mots->add(clip[0]);
    mots->finish();
    EXPECT_TRUE(std::filesystem::exists(folder / "mots/escaped.txt"));
}

}  // namespace
}  // namespace sam3
