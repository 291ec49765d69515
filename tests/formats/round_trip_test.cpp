#include "formats/record_files.h"
#include "formats/records.h"
#include "formats/result_formats.h"
#include "media/image_io.h"
#include "util/atomic_file.h"
#include "util/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

namespace sam3 {
namespace {

using test::Folder;

// What of a record a format keeps, beyond masks.
struct Kept {
    bool file = true, labels = true, scores = true, ids = true, boxes = true, prompts = false, clip = true;
};

std::vector<Segmentation> read_all(const FormatInfo& format, const std::string& path, const ReadOptions& options = {}) {
    const auto reader = record_reader(format, path, options);
    std::vector<Segmentation> records;
    Segmentation record;
    while (reader->next(record)) records.push_back(record);
    return records;
}

// Writes as a program would: files a picture below the path, or one result at it.
std::vector<Segmentation> write_and_read(const std::string& name, const std::vector<Segmentation>& records,
                                         const std::string& path, const WriteOptions& write = {},
                                         const ReadOptions& read = {}) {
    const FormatInfo& format = result_format(name);
    if (format.per_item()) {
        for (const Segmentation& record : records)
            for (const OutputFile& file : item_files(format, record, record_stem(record), nullptr, write)) {
                const std::filesystem::path to = std::filesystem::path(path) / file.name;
                std::filesystem::create_directories(to.parent_path());
                write_file_atomically(to.string(), file.bytes);
            }
    } else {
        const auto writer = dataset_writer(format, path, write);
        for (const Segmentation& record : records) writer->add(record);
        writer->finish();
    }
    EXPECT_EQ(detect_format(path).name, format.name == "tracks" ? "jsonl" : format.name);
    return read_all(format, path, read);
}

void expect_kept(const std::vector<Segmentation>& found, const std::vector<Segmentation>& expected, const Kept& kept) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t r = 0; r < found.size(); ++r) {
        SCOPED_TRACE(r);
        const Segmentation &a = found[r], &b = expected[r];
        EXPECT_TRUE(!kept.file || a.file == b.file) << a.file;
        if (kept.clip) {
            EXPECT_EQ(a.clip, b.clip);
            EXPECT_EQ(a.frame, b.frame);
        }
        EXPECT_EQ(a.width, b.width);
        EXPECT_EQ(a.height, b.height);
        ASSERT_EQ(a.instances.size(), b.instances.size());
        for (size_t i = 0; i < a.instances.size(); ++i) {
            EXPECT_EQ(a.instances[i].mask, b.instances[i].mask) << i;
            EXPECT_TRUE(!kept.labels || a.instances[i].label == b.instances[i].label) << a.instances[i].label;
            EXPECT_TRUE(!kept.scores || a.instances[i].score == b.instances[i].score) << a.instances[i].score;
            EXPECT_TRUE(!kept.ids || a.instances[i].id == b.instances[i].id) << a.instances[i].id;
            EXPECT_TRUE(!kept.boxes || a.instances[i].x1 == b.instances[i].x1) << a.instances[i].x1;
            EXPECT_TRUE(!kept.boxes || a.instances[i].y0 == b.instances[i].y0) << a.instances[i].y0;
        }
        if (kept.prompts) {
            ASSERT_EQ(a.prompts.size(), b.prompts.size());
            for (size_t i = 0; i < a.prompts.size(); ++i) {
                EXPECT_EQ(a.prompts[i].label, b.prompts[i].label);
                EXPECT_EQ(a.prompts[i].presence, b.prompts[i].presence);
            }
        }
    }
}

std::vector<Segmentation> stills() {
    std::vector<Segmentation> records = {test::still("a/one.jpg"), test::still("b/one.jpg"), test::still("two.png")};
    records[1].instances[0].label = "ünïcode \"name\", with: everything # in it";
    records[1].instances[0].x1 = 3.7F;  // a box need not lie on pixels
    records[2].instances[1].score = 0.1F;
    return records;
}

std::vector<Segmentation> clips() {
    std::vector<Segmentation> records = test::clip("street", 4);
    for (Segmentation& record : test::clip("zoo/entrance", 3)) records.push_back(std::move(record));
    return records;
}

TEST(RoundTrip, JsonAndJsonlKeepEverything) {
    std::vector<Segmentation> records = stills();
    records[0].instances[0].candidates = {{0.9F, records[0].instances[1].mask}};
    records[0].prompts[0].semantic = records[0].instances[0].mask;
    records[0].seconds = {{"encode", 0.25}};
    records.push_back(test::clip("street", 1)[0]);
    const Folder folder;
    for (const char* name : {"json", "jsonl"}) {
        SCOPED_TRACE(name);
        const std::string path = folder / (std::string("all.") + name);
        auto again = write_and_read(name, records, path);
        if (std::string(name) == "json")  // the files come in the order of their names
            std::rotate(again.begin() + 2, again.begin() + 3, again.end());
        expect_kept(again, records, {.prompts = true});
        for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(to_json(again[i]), to_json(records[i]));
    }
}

TEST(RoundTrip, TracksKeepClips) {
    const Folder folder;
    expect_kept(write_and_read("tracks", clips(), folder / "tracks"), clips(), {.prompts = true});
    expect_kept(write_and_read("tracks", test::clip("street", 3), folder / "street.jsonl"), test::clip("street", 3),
                {});
}

TEST(RoundTrip, CocoKeepsAllButPrompts) {
    const Folder folder;
    expect_kept(write_and_read("coco", stills(), folder / "coco.json"), stills(), {});
    expect_kept(write_and_read("coco", stills(), folder / "polygons.json", {.polygons = true}), stills(), {});
    expect_kept(write_and_read("coco", clips(), folder / "vid.json"), clips(), {});
}

TEST(RoundTrip, CocoResultsNameNumbersOfTheTruth) {
    const Folder folder;
    std::vector<Segmentation> records = {test::still("one.jpg"), test::still("two.png")};
    records[1].instances.pop_back();
    const std::string truth = folder / "truth.json";
    write_and_read("coco", records, truth);
    const Kept kept = {.boxes = false};
    expect_kept(write_and_read("coco-results", records, folder / "own.json", {}, {.truth = truth}), records, kept);
    expect_kept(write_and_read("coco-results", records, folder / "by.json", {.truth = truth}, {.truth = truth}),
                records, kept);
    EXPECT_THROW(read_all(result_format("coco-results"), folder / "own.json"), Error);
}

TEST(RoundTrip, YoloKeepsMasksAndLabels) {
    const Folder folder;
    std::vector<Segmentation> records = stills();
    for (const Segmentation& record : records) {
        const std::filesystem::path path = folder / ("yolo/images/" + record.file);
        std::filesystem::create_directories(path.parent_path());
        write_image(path.string(), Image(record.width, record.height, 3));
    }
    expect_kept(write_and_read("yolo", records, folder / "yolo"), records,
                {.scores = false, .ids = false, .boxes = false});
}

TEST(RoundTrip, LabelmeKeepsMasksLabelsAndIds) {
    const Folder folder;
    expect_kept(write_and_read("labelme", stills(), folder / "labelme"), stills(), {.scores = false, .boxes = false});
}

TEST(RoundTrip, MaskPicturesKeepMasksAndIds) {
    const Folder folder;
    std::vector<Segmentation> records = {test::still("a/one"), test::still("two")};
    records[0].instances[0].id = 12;
    std::swap(records[0].instances[0], records[0].instances[1]);  // they come back by number
    expect_kept(write_and_read("png", records, folder / "png"), records, {.labels = false, .scores = false});
}

TEST(RoundTrip, LabelMapsKeepMasksIdsAndFrames) {
    const Folder folder;
    const Kept kept = {.labels = false, .scores = false};
    for (const char* name : {"davis", "ids"}) {
        SCOPED_TRACE(name);
        const std::string path = folder / name;
        expect_kept(write_and_read(name, {test::still("a/one"), test::still("two")}, path + "/stills"),
                    {test::still("a/one"), test::still("two")}, kept);
        expect_kept(write_and_read(name, clips(), path + "/clips"), clips(), kept);
    }
    Segmentation many = test::still("many");
    many.instances[0].id = 254;
    EXPECT_NO_THROW(item_files(result_format("davis"), many, "many", nullptr));
    many.instances[0].id = 255;
    EXPECT_THROW(item_files(result_format("davis"), many, "many", nullptr), Error);
    many.instances[0].id = 65534;
    std::swap(many.instances[0], many.instances[1]);
    expect_kept(write_and_read("ids", {many}, folder / "many"), {many}, kept);
}

TEST(RoundTrip, MotsKeepsMasksAndIds) {
    const Folder folder;
    expect_kept(write_and_read("mots", clips(), folder / "mots"), clips(), {.labels = false, .scores = false});
}

TEST(RoundTrip, YoutubeVisKeepsTracks) {
    const Folder folder;
    expect_kept(write_and_read("ytvis", clips(), folder / "ytvis.json"), clips(), {});
    expect_kept(write_and_read("ytvis", clips(), folder / "polygons.json", {.polygons = true}), clips(), {});
}

TEST(RoundTrip, VevalPredictionsNameNumbersOfTheTruth) {
    const Folder folder;
    const std::vector<Segmentation> records = test::clip("street", 4);
    const std::string truth = folder / "truth.json";
    write_and_read("ytvis", records, truth);
    const auto again = write_and_read("veval", records, folder / "veval.json", {.truth = truth}, {.truth = truth});
    // Objects are ordered by label there.
    std::vector<Segmentation> expected = records;
    for (Segmentation& record : expected)
        std::sort(record.instances.begin(), record.instances.end(),
                  [](const auto& a, const auto& b) { return a.label < b.label; });
    expect_kept(again, expected, {.file = false, .ids = false});
}

TEST(RoundTrip, OverlapsGoToTheSurerObject) {
    Segmentation record = test::still("x");
    record.instances[1].mask =
        test::draw({"##.......", "##.......", ".........", ".........", ".........", "........."});
    const Folder folder;
    const Segmentation again = write_and_read("davis", {record}, folder / "davis").at(0);
    EXPECT_EQ(again.instances[0].mask, record.instances[0].mask);  // 0.75 beats 0.5
    EXPECT_EQ(mask_area(again.instances[1].mask), 1);
    record.instances[0].score = 0.25F;
    EXPECT_EQ(mask_area(write_and_read("davis", {record}, folder / "davis").at(0).instances[1].mask), 4);
}

}  // namespace
}  // namespace sam3
