#include "media/image_io.h"

#include "image/support.h"
#include "media/codecs.h"
#include "media/exif.h"
#include "util/error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

namespace sam3 {
namespace {

namespace fs = std::filesystem;

std::string data_file(const std::string& name) { return std::string(SAM3_TEST_DATA) + "/image/files/" + name; }

std::string message_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

std::string decode_error(const std::vector<uint8_t>& bytes) {
    return message_of([&] { decode_image(bytes, "x.img"); });
}

std::vector<uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

// A folder of its own for each test.
struct Scratch {
    fs::path path;
    Scratch() {
        std::string pattern = (fs::temp_directory_path() / "sam3_image_XXXXXX").string();
        path = mkdtemp(pattern.data());
    }
    ~Scratch() { fs::remove_all(path); }
    std::string file(const std::string& name) const { return (path / name).string(); }
};

TEST(ImageIo, DecodesEveryKindOfFileAsPillowDoes) {
    int checked = 0;
    for (auto& line : test::data_lines("image/decoded.txt")) {
        std::string name;
        int width = 0, height = 0;
        uint32_t crc = 0;
        line >> name >> width >> height >> crc;
        ASSERT_FALSE(line.fail());
        const Image image = read_image(data_file(name));
        EXPECT_EQ(image.width, width) << name;
        EXPECT_EQ(image.height, height) << name;
        EXPECT_EQ(test::crc32(image.pixels), crc) << name;
        ++checked;
    }
    EXPECT_GE(checked, 30);
}

TEST(ImageIo, TurnsAndMirrorsByTheOrientation) {
    const Image upright = read_image(data_file("orientation1.jpg"));
    for (int value = 2; value <= 8; ++value) {
        const Image shown = read_image(data_file("orientation" + std::to_string(value) + ".jpg"));
        EXPECT_EQ(shown.width, value < 5 ? upright.width : upright.height) << value;
    }
    Image corner(3, 2, 1);
    corner.pixels = {1, 2, 3, 4, 5, 6};
    const std::vector<std::vector<uint8_t>> expected = {{1, 2, 3, 4, 5, 6}, {3, 2, 1, 6, 5, 4}, {6, 5, 4, 3, 2, 1},
                                                        {4, 5, 6, 1, 2, 3}, {1, 4, 2, 5, 3, 6}, {4, 1, 5, 2, 6, 3},
                                                        {6, 3, 5, 2, 4, 1}, {3, 6, 2, 5, 1, 4}};
    for (int value = 1; value <= 8; ++value)
        EXPECT_EQ(apply_orientation(corner, value).pixels, expected[static_cast<size_t>(value - 1)]) << value;
}

TEST(ImageIo, PngKeepsEveryPixel) {
    for (const int channels : {1, 3, 4}) {
        const Image image = test::noise(37, 23, channels, 4);
        const Image back = decode_image(encode_png(image), "noise.png");
        ASSERT_EQ(back.pixels.size(), 37U * 23U * 3U);
        for (int y = 0; y < 23; ++y)
            for (int x = 0; x < 37; ++x)
                for (int c = 0; c < 3; ++c)
                    ASSERT_EQ(back.at(x, y)[c], image.at(x, y)[channels == 1 ? 0 : c]) << channels;
    }
}

TEST(ImageIo, PngWritesSixteenBitsAndPalettes) {
    const std::vector<uint16_t> deep = {0x0000, 0x1234, 0xABCD, 0xFFFF};
    const Image upper = decode_image(encode_png_grey16(deep, 2, 2), "deep.png");
    EXPECT_EQ(upper.at(1, 0)[0], 0x12);
    EXPECT_EQ(upper.at(0, 1)[1], 0xAB);

    Image labels(3, 1, 1);
    labels.pixels = {0, 1, 1};
    const std::vector<uint8_t> palette = {9, 8, 7, 200, 100, 50};
    const Image coloured = decode_image(encode_png_palette(labels, palette), "labels.png");
    EXPECT_EQ(coloured.pixels, (std::vector<uint8_t>{9, 8, 7, 200, 100, 50, 200, 100, 50}));
    labels.pixels = {0, 1, 2};
    EXPECT_THROW(encode_png_palette(labels, palette), Error);
    EXPECT_THROW(encode_png_palette(labels, {}), Error);
    EXPECT_THROW(encode_png_grey16(deep, 3, 2), Error);
}

TEST(ImageIo, JpegStaysCloseAndFollowsTheQuality) {
    const Image image = read_image(data_file("rgb.png"));
    const auto fine = encode_jpeg(image, 98);
    const auto coarse = encode_jpeg(image, 30);
    EXPECT_LT(coarse.size(), fine.size());
    const Image back = decode_image(fine, "fine.jpg");
    double sum = 0;
    for (size_t i = 0; i < image.pixels.size(); ++i) sum += std::abs(int{back.pixels[i]} - int{image.pixels[i]});
    EXPECT_LT(sum / static_cast<double>(image.pixels.size()), 6.0);
    EXPECT_EQ(decode_image(encode_jpeg(test::noise(8, 8, 1, 1)), "grey.jpg").channels, 3);
    EXPECT_THROW(encode_jpeg(image, 0), Error);
    EXPECT_THROW(encode_jpeg(test::noise(8, 8, 4, 1)), Error);
}

TEST(ImageIo, TruncatedFilesAreASentence) {
    for (const std::string name : {"baseline420.jpg", "progressive.jpg", "rgb.png", "interlaced.png", "lossy.webp"}) {
        const auto whole = read_file(data_file(name));
        for (const size_t keep : {whole.size() / 4, whole.size() / 2, whole.size() * 3 / 4}) {
            const std::vector<uint8_t> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(keep));
            const std::string message = decode_error(part);
            EXPECT_NE(message.find("x.img"), std::string::npos) << name << " " << keep;
        }
    }
}

TEST(ImageIo, DamagedFilesNeverCrash) {
    for (const std::string name : {"orientation6.jpg", "progressive.jpg", "cmyk.jpg", "palette.png", "interlaced.png",
                                   "grey16.png", "lossy.webp", "orientation8.webp"}) {
        const auto whole = read_file(data_file(name));
        for (uint32_t seed = 0; seed < 120; ++seed) {
            auto bytes = whole;
            const Image random = test::noise(12, 1, 1, seed);
            for (size_t k = 0; k < 6; ++k)
                bytes[(random.pixels[k * 2] * 256U + seed * 7U) % bytes.size()] = random.pixels[k * 2 + 1];
            message_of([&] { decode_image(bytes, "x.img"); });
        }
    }
}

TEST(ImageIo, SaysWhatItFoundInstead) {
    const auto found = [](std::string_view content) { return decode_error(bytes_of(content)); };
    EXPECT_NE(found("<!DOCTYPE html><html>404</html>").find("an HTML page"), std::string::npos);
    EXPECT_NE(found(std::string_view("\0\0\0\x20"
                                     "ftypisom\0\0",
                                     14))
                  .find("an MP4 video"),
              std::string::npos);
    EXPECT_NE(found(std::string_view("\0\0\0\x20"
                                     "ftypheic\0\0",
                                     14))
                  .find("a HEIC image"),
              std::string::npos);
    EXPECT_NE(found("version https://git-lfs.github.com/spec/v1\n").find("git lfs pull"), std::string::npos);
    EXPECT_NE(found("just words\n").find("a text file"), std::string::npos);
    EXPECT_NE(found("{\"a\": 1}").find("a JSON file"), std::string::npos);
    EXPECT_NE(found("GIF89a").find("a GIF image"), std::string::npos);
    EXPECT_NE(found("").find("an empty file"), std::string::npos);
    EXPECT_NE(found(std::string_view("\x01\x02\x03", 3)).find("unknown"), std::string::npos);
}

TEST(ImageIo, SaysWhatIsWrongWithThePath) {
    const Scratch scratch;
    std::ofstream(scratch.file("empty.jpg")).close();
    EXPECT_NE(message_of([&] { read_image(scratch.path.string()); }).find("a folder"), std::string::npos);
    EXPECT_NE(message_of([&] { read_image(scratch.file("none.jpg")); }).find("nothing there"), std::string::npos);
    EXPECT_NE(message_of([&] { read_image(scratch.file("empty.jpg")); }).find("an empty file"), std::string::npos);
}

TEST(ImageIo, RefusesBombsBeforeTakingMemory) {
    EXPECT_NE(message_of([] { check_image_size(40000, 10, "a.png", kMaxImagePixels); }).find("32768"),
              std::string::npos);
    EXPECT_NE(message_of([] { check_image_size(30000, 30000, "a.png", kMaxImagePixels); }).find("at most 268435456"),
              std::string::npos);
    EXPECT_NO_THROW(check_image_size(32768, 8192, "a.png", kMaxImagePixels));
    auto bomb = read_file(data_file("rgb.png"));
    const uint8_t header[17] = {'I', 'H', 'D', 'R', 0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30, 8, 2, 0, 0, 0};
    std::copy(std::begin(header), std::end(header), bomb.begin() + 12);
    const uint32_t crc = test::crc32(header, sizeof(header));
    for (size_t i = 0; i < 4; ++i) bomb[29 + i] = static_cast<uint8_t>(crc >> (24 - 8 * i));
    EXPECT_THROW(decode_image(read_file(data_file("rgb.png")), "small.png", 45 * 31 - 1), Error);
    EXPECT_NE(decode_error(bomb).find("at most 268435456"), std::string::npos);
}

TEST(ImageIo, WritesWholeFilesOrNone) {
    const Scratch scratch;
    const Image image = test::noise(5, 4, 3, 2);
    write_image(scratch.file("a.png"), image);
    write_image(scratch.file("a.png"), image);  // replaces
    EXPECT_EQ(read_image(scratch.file("a.png")).pixels, image.pixels);
    write_image(scratch.file("b.JPG"), image, 80);
    EXPECT_EQ(read_image(scratch.file("b.JPG")).width, 5);
    EXPECT_THROW(write_image(scratch.file("c.bmp"), image), Error);
    EXPECT_THROW(write_image(scratch.file("none/c.png"), image), Error);
    EXPECT_THROW(write_file(scratch.path.string(), {}), Error);
    EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path), fs::directory_iterator()), 2);
}

TEST(Exif, IgnoresBrokenBlocks) {
    EXPECT_EQ(exif_orientation({}), 1);
    const std::vector<uint8_t> good = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0};
    EXPECT_EQ(exif_orientation(good), 6);
    for (size_t i = 0; i < good.size(); ++i)
        for (const uint8_t value : {0, 9, 255}) {
            auto bad = good;
            bad[i] = value;
            const int orientation = exif_orientation(bad);
            EXPECT_TRUE(orientation >= 1 && orientation <= 8);
            EXPECT_GE(exif_orientation({bad.data(), i}), 1);
        }
    std::vector<uint8_t> motorola = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 8, 0, 0};
    EXPECT_EQ(exif_orientation(motorola), 8);
}

}  // namespace
}  // namespace sam3
