#include "util/folders.h"

#include "support/scratch_folder.h"
#include "util/error.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace sam3 {
namespace {

namespace fs = std::filesystem;

class Folders : public testing::Test {
protected:
    std::string path(const std::string& name) const { return folder_.file(name); }
    // The sentence that make_folder fails with; empty when it does not.
    static std::string complaint(const std::string& path) {
        try {
            make_folder(path);
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    }

    test::ScratchFolder folder_;
};

TEST_F(Folders, AreMadeWithThoseAboveThem) {
    make_folder(path("a/b/c"));
    EXPECT_TRUE(fs::is_directory(path("a/b/c")));
    make_folder(path("a/b/c"));
    make_folder_of(path("x/y.txt"));
    EXPECT_TRUE(fs::is_directory(path("x")));
    EXPECT_FALSE(fs::exists(path("x/y.txt")));
    make_folder("");
    make_folder_of("y.txt");
}

TEST_F(Folders, AreNotMadeWhereAFileIs) {
    std::ofstream(path("file")) << "x";
    EXPECT_EQ(complaint(path("file")), path("file") + ": expected a folder to write results into, found a file");
    EXPECT_NE(complaint(path("file/below")).find("the folder cannot be made (Not a directory)"), std::string::npos);
}

TEST_F(Folders, ThatCannotBeWrittenIntoAreNamed) {
    fs::permissions(folder_.path(),
                    fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec);
    constexpr uid_t kNobody = 65534;
    const bool root = ::geteuid() == 0;  // who may write everywhere
    ASSERT_TRUE(!root || ::seteuid(kNobody) == 0);
    const std::string found = complaint(folder_.path());
    ASSERT_TRUE(!root || ::seteuid(0) == 0);
    EXPECT_NE(found.find("nothing can be written into this folder (Permission denied)"), std::string::npos) << found;
}

}  // namespace
}  // namespace sam3
