#include "util/output_names.h"

#include "util/base64.h"
#include "util/error.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sam3 {
namespace {

TEST(OutputNames, StayInsideTheFolder) {
    EXPECT_EQ(safe_output_name("../../etc/passwd"), "etc/passwd");
    EXPECT_EQ(safe_output_name("/etc/./passwd"), "etc/passwd");
    EXPECT_EQ(safe_output_name("a/../../b"), "a/b");
    EXPECT_EQ(safe_output_name("..\\evil"), ".._evil");
    EXPECT_EQ(safe_output_name("C:\\photos\\a.jpg"), "C__photos_a.jpg");
    EXPECT_EQ(safe_output_name(std::string("a\0b\n", 4)), "a_b_");
    EXPECT_EQ(safe_output_name("http://host/a?b=c"), "http_/host/a_b=c");
    for (const char* name : {"", "/", "..", "../..", "./."}) EXPECT_EQ(safe_output_name(name), "unnamed") << name;
    EXPECT_EQ(safe_output_name("Fotos/grün & rot.jpg"), "Fotos/grün & rot.jpg");
}

TEST(OutputNames, LongPartsAreCutBetweenCharacters) {
    std::string name;
    for (int i = 0; i < 150; ++i) name += "ü";
    const std::string safe = safe_output_name("folder/" + name);
    EXPECT_EQ(safe.size(), 7U + 200U);
    EXPECT_EQ(safe_output_name("x" + name).size(), 199U);
}

TEST(OutputNames, StemsLeaveOutEndings) {
    EXPECT_EQ(output_stem("photos/a.b.jpg"), "photos/a.b");
    EXPECT_EQ(output_stem("photos.d/.hidden"), "photos.d/.hidden");
    EXPECT_EQ(output_stem("plain"), "plain");
    EXPECT_EQ(frame_stem("street", 12), "street/00012");
    EXPECT_EQ(frame_stem("", 1234567), "1234567");
    EXPECT_EQ(frame_stem("../x", 0), "x/00000");
}

TEST(OutputNames, NoTwoInputsShareAStem) {
    const std::vector<std::string> inputs = {"/data/set/a/one.jpg", "/data/set/b/one.jpg", "/data/set/b/one.png",
                                             "/data/set/b/one_png", "/data/set/b/one.jpg"};
    EXPECT_EQ(output_stems(inputs),
              (std::vector<std::string>{"a/one", "b/one_jpg", "b/one_png", "b/one_png_2", "b/one_jpg_2"}));
    EXPECT_EQ(output_stems(std::vector<std::string>{"x/y/z.jpg"}), (std::vector<std::string>{"z"}));
    EXPECT_TRUE(output_stems({}).empty());
}

TEST(OutputNames, WhatAllShareCanBeLeftOut) {
    const auto shared = [](std::vector<std::string> names) { return shared_folder(names); };
    EXPECT_EQ(shared({"/data/set/a/1.jpg", "/data/set/2.jpg"}), "/data/set/");
    EXPECT_EQ(shared({"/data/set/1.jpg", "/data/settle/1.jpg"}), "/data/");
    EXPECT_EQ(shared({"/a.jpg", "b.jpg"}), "");
    EXPECT_EQ(shared({"../x/a.jpg"}), "../x/");
    EXPECT_EQ(shared({}), "");
    EXPECT_EQ(name_in_folder("/data/set/a/1.jpg", "/data/set/"), "a/1.jpg");
    EXPECT_EQ(name_in_folder("other/1.jpg", "/data/set/"), "other/1.jpg");
}

TEST(Base64, IsDecodedOrRefused) {
    const auto text = [](std::string_view code) {
        const std::vector<uint8_t> bytes = base64_decode(code);
        return std::string(bytes.begin(), bytes.end());
    };
    EXPECT_EQ(text("aGVsbG8gd29ybGQ="), "hello world");
    EXPECT_EQ(text("aGVs\nbG8="), "hello");
    EXPECT_EQ(text(""), "");
    EXPECT_THROW(base64_decode("a-b"), Error);
}

}  // namespace
}  // namespace sam3
