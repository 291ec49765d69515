#include "util/mapped_file.h"
#include "tests/weights/files.h"

#include <sys/stat.h>

namespace sam3::test {
namespace {

TEST(MappedFile, ShowsTheBytesOfAFile) {
    const TemporaryFolder folder;
    const MappedFile file(folder.write("a", "hello"));
    ASSERT_EQ(file.size(), 5U);
    EXPECT_EQ(std::memcmp(file.data(), "hello", 5), 0);
    EXPECT_TRUE(file.contains(file.data() + 4));
    EXPECT_FALSE(file.contains(file.data() + 5));
}

TEST(MappedFile, ReleasedPagesAreReadAgain) {
    const TemporaryFolder folder;
    const MappedFile file(folder.write("a", Bytes(100'000, 7)));
    file.release(file.data(), file.size());
    file.release(file.data() + 10, 3);                  // less than a page
    file.release(file.data() + 5000, size_t{1} << 40);  // beyond the end
    file.release(nullptr, 10);                          // elsewhere
    for (size_t i = 0; i < file.size(); ++i) ASSERT_EQ(file.data()[i], 7);
}

TEST(MappedFile, AnnouncesAnyRange) {
    const TemporaryFolder folder;
    const MappedFile file(folder.write("a", Bytes(100'000, 7)));
    file.prefetch(file.data() + 10, 3);
    file.prefetch(file.data() + 5000, size_t{1} << 40);  // beyond the end
    file.prefetch(nullptr, 10);                          // elsewhere
    for (size_t i = 0; i < file.size(); ++i) ASSERT_EQ(file.data()[i], 7);
}

TEST(MappedFile, ExplainsWhatIsNotAFile) {
    const TemporaryFolder folder;
    const auto open = [](const std::string& path) { return error_of([&] { MappedFile file(path); }); };
    expect_contains(open(folder / "nothing"), "there is no file");
    expect_contains(open(folder.path()), "found a folder");
    expect_contains(open(folder.write("empty", "")), "is empty (0 bytes)");
    expect_contains(open(std::string("a\0b", 3)), "zero byte");
    ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
    expect_contains(open(folder / "pipe"), "found a pipe");
    expect_contains(open("/dev/null"), "expected a regular file");
}

}  // namespace
}  // namespace sam3::test
