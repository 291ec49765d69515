#include "formats/result_formats.h"

#include "formats/record_files.h"
#include "formats/records.h"
#include "media/image_io.h"
#include "util/error.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

namespace sam3 {
namespace {

using test::Folder;

std::string sentence_from(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(ResultFormats, EveryRowIsComplete) {
    std::set<std::string_view> names, places;
    for (const FormatInfo& info : result_formats()) {
        SCOPED_TRACE(info.name);
        EXPECT_TRUE(names.insert(info.name).second);
        EXPECT_FALSE(info.what.empty());
        EXPECT_FALSE(info.loses.empty());
        EXPECT_EQ(info.extension.front(), '.');
        EXPECT_NE(info.item == nullptr, info.dataset == nullptr) << "files a picture, or one result for all";
        EXPECT_TRUE(info.per_item() || places.insert(info.place).second) << "two formats would be one file";
        EXPECT_EQ(&result_format(info.name), &info);
    }
    EXPECT_NE(sentence_from([] { result_format("cocoa"); }).find("known are json, jsonl"), std::string::npos);
}

// docs/formats.md has a row "| `name` | what | loses |" for each.
TEST(ResultFormats, TheDocumentHasTheSameTable) {
    std::ifstream file(std::string(SAM3_TEST_DATA) + "/../../docs/formats.md");
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    for (const FormatInfo& info : result_formats()) {
        const std::string ways = info.reads() ? "read, written" : "written";
        const std::string row = str("| `", info.name, "` | ", info.what, " | ", ways, " | ", info.loses, " |\n");
        EXPECT_NE(text.find(row), std::string::npos) << "docs/formats.md lacks the row:\n" << row;
    }
}

TEST(ResultFormats, WritersRefuseWhatTheyDoNotTake) {
    const Folder folder;
    for (const char* name : {"mots", "ytvis", "tracks"}) {
        const auto writer = dataset_writer(result_format(name), folder / name);
        EXPECT_NE(sentence_from([&] { writer->add(test::still("a.jpg")); }).find("still image"), std::string::npos);
    }
    EXPECT_NE(sentence_from([&] { dataset_writer(result_format("veval"), folder / "x.json"); }).find("--truth"),
              std::string::npos);
    EXPECT_NE(
        sentence_from([] { item_files(result_format("overlay"), test::still("a"), "a", nullptr); }).find("--images"),
        std::string::npos);
    const Image other(3, 3, 3);
    EXPECT_NE(sentence_from([&] { item_files(result_format("cutout"), test::still("a"), "a", &other); }).find("3 x 3"),
              std::string::npos);
    Segmentation record = test::still("a.jpg");
    record.instances[0].mask = Mask(2, 2);
    EXPECT_THROW(item_files(result_format("json"), record, "a", nullptr), Error);
    EXPECT_THROW(record_reader(result_format("csv"), folder.path()), Error);
}

TEST(ResultFormats, RecordsAreFoundAmongOtherFiles) {
    const Folder folder;
    const auto coco = dataset_writer(result_format("coco"), folder / "all.json");
    coco->add(test::still("one.jpg"));
    coco->finish();
    for (const OutputFile& file : item_files(result_format("json"), test::still("one.jpg"), "one", nullptr))
        write_file(folder / file.name, file.bytes);
    EXPECT_EQ(detect_format(folder.path()).name, "json");
    const auto reader = record_reader(result_format("json"), folder.path());
    Segmentation record;
    EXPECT_TRUE(reader->next(record));
    EXPECT_EQ(record.file, "one.jpg");
    EXPECT_FALSE(reader->next(record));
    EXPECT_EQ(detect_format(folder / "all.json").name, "coco");
}

TEST(ResultFormats, ClipsComeOneAfterAnother) {
    const Folder folder;
    std::vector<Segmentation> street = test::clip("street", 2), zoo = test::clip("zoo", 1);
    for (const char* name : {"mots", "ytvis", "tracks"}) {
        const auto writer = dataset_writer(result_format(name), folder / (std::string(name) + "-mixed"));
        writer->add(street[0]);
        writer->add(zoo[0]);
        EXPECT_THROW(writer->add(street[1]), Error) << name;
    }
    const auto single = dataset_writer(result_format("mots"), folder / "one.txt");
    single->add(street[0]);
    EXPECT_NE(sentence_from([&] { single->add(zoo[0]); }).find("folder"), std::string::npos);
}

TEST(ResultFormats, CutOutsAreClearOutsideOfTheMask) {
    Segmentation record = test::still("a");
    Image pixels(record.width, record.height, 3);
    for (size_t i = 0; i < pixels.pixels.size(); ++i) pixels.pixels[i] = static_cast<uint8_t>(i);
    const auto files = item_files(result_format("cutout"), record, "x/a", &pixels);
    ASSERT_EQ(files.size(), 2U);
    EXPECT_EQ(files[1].name, "x/a_cutout_1.png");
    const Image cut = decode_image(files[0].bytes, "cut.png");
    EXPECT_EQ(cut.width, 4);
    EXPECT_EQ(cut.height, 4);
    EXPECT_EQ(cut.at(3, 1)[1], pixels.at(3, 1)[1]);
}

TEST(ResultFormats, MattesRiseAcrossTheOutline) {
    Segmentation record = test::still("a");
    record.width = 40;
    record.height = 3;
    Mask mask(40, 3);
    for (int y = 0; y < 3; ++y)
        for (int x = 20; x < 40; ++x) mask.at(x, y) = 1;
    record.instances = {test::instance("half", 0, 1, 0, mask)};
    const auto files = item_files(result_format("matte"), record, "a", nullptr, {.soft_edge = 4});
    const Image matte = decode_image(files.at(0).bytes, "matte.png");
    EXPECT_EQ(matte.at(10, 1)[0], 0);
    EXPECT_EQ(matte.at(35, 1)[0], 255);
    for (int x = 1; x < 40; ++x) EXPECT_GE(matte.at(x, 1)[0], matte.at(x - 1, 1)[0]);
    EXPECT_LT(matte.at(19, 1)[0], 128);
    EXPECT_GT(matte.at(20, 1)[0], 127);
    EXPECT_EQ(matte.at(19, 1)[0] + matte.at(20, 1)[0], 255);
}

TEST(ResultFormats, TablesQuoteWhatNeedsIt) {
    const Folder folder;
    Segmentation record = test::still("a, b.jpg");
    record.instances[0].label = "say \"x\"";
    const auto writer = dataset_writer(result_format("csv"), folder / "t.csv");
    writer->add(record);
    writer->finish();
    LineReader lines(folder / "t.csv");
    std::string line;
    ASSERT_TRUE(lines.next(line) && lines.next(line));
    EXPECT_EQ(line, "\"a, b.jpg\",,,9,6,0,\"say \"\"x\"\"\",0.75,0,0,4,4,12");
}

}  // namespace
}  // namespace sam3
