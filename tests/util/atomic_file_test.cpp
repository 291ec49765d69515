#include "util/atomic_file.h"

#include "support/scratch_folder.h"
#include "util/error.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace sam3 {
namespace {

namespace fs = std::filesystem;

class AtomicFileTest : public testing::Test {
protected:
    std::string path(const std::string& name) const { return folder_.file(name); }
    static std::string content(const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    }
    ptrdiff_t files() const { return std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()); }

    test::ScratchFolder folder_;
};

TEST(AtomicFileNames, WhatAKilledProcessLeavesIsKnown) {
    EXPECT_EQ(name_behind_leftover("clip.resume.json.part18149-6"), "clip.resume.json");
    for (const char* other : {"clip.resume.json", "a.part", "a.part12", "a.part1-b", ".part"})
        EXPECT_EQ(name_behind_leftover(other), "") << other;
}

TEST_F(AtomicFileTest, IsThereOnlyWhenFinished) {
    write_file_atomically(path("a"), "old");
    {
        AtomicFile file(path("a"));
        file.write(std::string(1 << 20, 'x'));
        EXPECT_EQ(content(path("a")), "old");
    }
    EXPECT_EQ(content(path("a")), "old");
    EXPECT_EQ(files(), 1) << "nothing is left of a file that was given up";
    AtomicFile file(path("a"));
    for (int i = 0; i < 1000; ++i) file.write(std::string(1000, static_cast<char>('a' + i % 26)));
    file.finish();
    EXPECT_EQ(content(path("a")).size(), 1000000U);
    EXPECT_EQ(content(path("a")).substr(1999, 2), "bc");
    EXPECT_EQ(files(), 1);
}

TEST_F(AtomicFileTest, SaysWhereItCannotWrite) {
    EXPECT_THROW(AtomicFile(path("missing/a")), Error);
    EXPECT_THROW(AtomicFile{folder_.path()}, Error);
    AtomicFile one(path("a")), other(path("a"));  // two writers do not meet in one temporary file
    one.write("1");
    other.write("2");
    one.finish();
    other.finish();
    EXPECT_EQ(content(path("a")), "2");
}

}  // namespace
}  // namespace sam3
