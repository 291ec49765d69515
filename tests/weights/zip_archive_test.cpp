#include "weights/zip_archive.h"

#include "tests/weights/zip_builder.h"

namespace sam3::test {
namespace {

const ZipParts kParts{{"a/first", {1, 2, 3}}, {"a/empty", {}}, {"a/last", Bytes(300, 7)}};

std::vector<ZipEntry> read(const Bytes& bytes) { return read_zip(bytes.data(), bytes.size(), "archive"); }

std::string refusal(const Bytes& bytes) {
    return error_of([&] { read(bytes); });
}

template <typename T>
Bytes patched(Bytes bytes, size_t offset, T value) {
    std::memcpy(bytes.data() + offset, &value, sizeof value);
    return bytes;
}

// Where the n-th record with this signature begins.
size_t find_record(const Bytes& bytes, uint32_t signature, int n = 0) {
    for (size_t i = 0; i + 4 <= bytes.size(); ++i)
        if (std::memcmp(bytes.data() + i, &signature, 4) == 0 && n-- == 0) return i;
    ADD_FAILURE() << "no such record";
    return 0;
}

constexpr uint32_t kEntry = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50, kLocator = 0x07064b50;

TEST(ZipArchive, EntriesAreFoundWhereTheyLie) {
    for (const ZipOptions& options :
         {ZipOptions{}, ZipOptions{.zip64 = true, .comment = ""}, ZipOptions{.descriptors = true, .comment = ""},
          ZipOptions{.zip64 = true, .descriptors = true, .comment = "a comment"},
          ZipOptions{.comment = std::string(65535, 'x')}}) {
        const Bytes bytes = make_zip(kParts, options);
        const std::vector<ZipEntry> entries = read(bytes);
        ASSERT_EQ(entries.size(), kParts.size());
        for (size_t i = 0; i < entries.size(); ++i) {
            EXPECT_EQ(entries[i].name, kParts[i].first);
            EXPECT_TRUE(entries[i].is_plain);
            EXPECT_EQ(Bytes(entries[i].data, entries[i].data + entries[i].bytes), kParts[i].second);
        }
    }
    EXPECT_TRUE(read(make_zip({})).empty());
}

// The 64-bit field has only those numbers that do not fit elsewhere.
TEST(ZipArchive, Zip64FieldsMayStandAlone) {
    Bytes bytes = make_zip({{"ab", {1, 2, 3}}});
    const size_t entry = find_record(bytes, kEntry), end = find_record(bytes, kEnd);
    bytes = patched<uint32_t>(patched<uint32_t>(bytes, entry + 42, 0xffffffff), end + 12, 46 + 2 + 12);
    bytes = patched<uint16_t>(bytes, entry + 30, 12);
    const Bytes field{1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(entry) + 48, field.begin(), field.end());
    EXPECT_EQ(read(bytes).at(0).bytes, 3U);

    bytes = make_zip(kParts, {.zip64 = true, .comment = "", .method = 8});
    const size_t extra = find_record(bytes, kEntry) + 46 + kParts[0].first.size();
    EXPECT_EQ(read(patched<uint64_t>(bytes, extra + 4, 1000)).at(0).bytes, 3U);  // 1000 when unpacked
}

TEST(ZipArchive, CompressedAndEncryptedEntriesAreMarked) {
    EXPECT_FALSE(read(make_zip(kParts, {.comment = "", .method = 8}))[0].is_plain);
    EXPECT_FALSE(read(make_zip(kParts, {.comment = "", .flags = 1}))[0].is_plain);
}

TEST(ZipArchive, EveryCutIsNoticed) {
    for (const bool zip64 : {false, true}) {
        const Bytes bytes = make_zip(kParts, {.zip64 = zip64, .comment = ""});
        for (size_t size = 0; size < bytes.size(); ++size) {
            const Bytes cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
            expect_contains(refusal(cut), "archive");
        }
    }
}

TEST(ZipArchive, WrongPlacesAndLengthsAreRefused) {
    const Bytes bytes = make_zip(kParts);
    const size_t entry = find_record(bytes, kEntry), end = find_record(bytes, kEnd);
    expect_contains(refusal(patched<uint32_t>(bytes, entry + 42, 1)), "'a/first' is not at byte 1");
    expect_contains(refusal(patched<uint32_t>(bytes, entry + 42, 0xfffffff0)), "is not at byte 4294967280");
    Bytes longer = patched<uint32_t>(bytes, entry + 20, 100000);
    expect_contains(refusal(longer), "has two sizes");
    longer = patched<uint32_t>(longer, entry + 24, 100000);
    expect_contains(refusal(longer), "should have 100000 bytes");
    expect_contains(refusal(patched<uint16_t>(bytes, entry + 28, 60000)), "ends too early");
    expect_contains(refusal(patched<uint16_t>(bytes, entry + 32, 60000)), "ends too early");
    expect_contains(refusal(patched<uint8_t>(bytes, entry + 46, 'b')), "has another name in its own header");
    expect_contains(refusal(patched<uint32_t>(bytes, entry, 0)), "damaged at its byte 0");
    expect_contains(refusal(patched<uint16_t>(bytes, end + 10, 4)), "announces 4 entries");
    expect_contains(refusal(patched<uint32_t>(bytes, end + 12, 0x7fffffff)), "should have 2147483647 bytes");
    expect_contains(refusal(patched<uint32_t>(bytes, end + 16, 0x7fffffff)), "at byte 2147483647");
    expect_contains(refusal(patched<uint32_t>(bytes, end + 16, 0xffffffff)), "zip64");
    expect_contains(refusal(patched<uint16_t>(bytes, end + 4, 1)), "in several files");
    expect_contains(refusal(patched<uint16_t>(bytes, end + 20, 1)), "no directory at its end");
}

TEST(ZipArchive, WrongZip64RecordsAreRefused) {
    const Bytes bytes = make_zip(kParts, {.zip64 = true, .comment = ""});
    const size_t end = find_record(bytes, kEnd64), locator = find_record(bytes, kLocator);
    for (const uint64_t place : {uint64_t{0}, uint64_t{locator}, ~uint64_t{0}, ~uint64_t{55}})
        expect_contains(refusal(patched(bytes, locator + 8, place)), "the zip64 directory is not at byte");
    for (const uint64_t wild : {~uint64_t{0}, uint64_t{1} << 62, uint64_t{1000}}) {
        expect_contains(refusal(patched(bytes, end + 32, wild)), "entries, more than");
        expect_contains(refusal(patched(bytes, end + 40, wild)), "the zip directory should have");
        expect_contains(refusal(patched(bytes, end + 48, wild)), "the zip directory should have");
    }
    const size_t extra = find_record(bytes, kEntry) + 46 + kParts[0].first.size();
    expect_contains(refusal(patched(bytes, extra + 20, ~uint64_t{0})), "is not at byte 18446744073709551615");
    expect_contains(refusal(patched(bytes, extra + 12, ~uint64_t{0})), "has two sizes");
    expect_contains(refusal(patched(patched(bytes, extra + 12, ~uint64_t{0}), extra + 4, ~uint64_t{0})),
                    "should have 18446744073709551615 bytes");
    expect_contains(refusal(patched<uint16_t>(bytes, extra, 9)), "is not at byte 4294967295");  // no zip64 field
}

TEST(ZipArchive, OverlappingAndRepeatedEntriesAreRefused) {
    const ZipParts twice{{"same", {1}}, {"same", {2}}};
    expect_contains(refusal(make_zip(twice)), "'same' stands in the archive twice");
    // An archive inside an archive: its entry lies inside the outer one.
    const Bytes inner = make_zip({{"inner", {1, 2, 3}}});
    const Bytes bytes = make_zip({{"outer", inner}, {"inner", {1, 2, 3}}});
    const size_t second = find_record(bytes, kEntry, 2);
    const auto inside = static_cast<uint32_t>(30 + 5 + 4);  // where the outer entry's data begins
    expect_contains(refusal(patched(bytes, second + 42, inside)), "the zip entries 'outer' and 'inner' overlap");
}

}  // namespace
}  // namespace sam3::test
