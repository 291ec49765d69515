#include "weights/zip_archive.h"

#include "util/checked.h"
#include "util/error.h"
#include "weights/byte_cursor.h"
#include "weights/quote_name.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

// Layouts and names are those of PKWARE's APPNOTE.TXT, version 6.3.
namespace sam3 {

namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kDirectoryEntry = 0x02014b50, kDirectoryEnd = 0x06054b50;
constexpr uint32_t kZip64End = 0x06064b50, kZip64Locator = 0x07064b50;
constexpr uint64_t kLocalHeaderBytes = 30, kDirectoryEntryBytes = 46, kDirectoryEndBytes = 22, kLocatorBytes = 20;
constexpr uint64_t kMaxComment = 65535;
constexpr uint16_t kEncrypted = 1, kStored = 0, kZip64Extra = 1;
constexpr uint32_t kInZip64 = 0xffffffff;  // the real value stands in a zip64 record

struct Directory {
    uint64_t entries = 0;
    uint64_t bytes = 0;
    uint64_t offset = 0;
};

template <typename T>
T read_at(const uint8_t* data, uint64_t offset) {
    T value;
    std::memcpy(&value, data + offset, sizeof value);
    return value;
}

// The end record stands last, before a comment of up to 64 KB.
uint64_t find_directory_end(const uint8_t* data, uint64_t size, const std::string& path) {
    for (uint64_t comment = 0; comment <= kMaxComment && comment + kDirectoryEndBytes <= size; ++comment) {
        const uint64_t at = size - kDirectoryEndBytes - comment;
        if (read_at<uint32_t>(data, at) == kDirectoryEnd && read_at<uint16_t>(data, at + 20) == comment) return at;
    }
    fail(path, ": the zip archive (", size, " bytes) has no directory at its end: was its download interrupted?");
}

Directory read_zip64_end(const uint8_t* data, uint64_t end, const std::string& path) {
    if (end < kLocatorBytes || read_at<uint32_t>(data, end - kLocatorBytes) != kZip64Locator)
        fail(path, ": the zip archive says that it has a zip64 directory, but has none; the file is damaged");
    const uint64_t at = read_at<uint64_t>(data, end - kLocatorBytes + 8);
    constexpr uint64_t kBytes = 56;
    if (!range_fits(at, kBytes, end - kLocatorBytes) || read_at<uint32_t>(data, at) != kZip64End)
        fail(path, ": the zip64 directory is not at byte ", at, ", where it should be; the file is damaged");
    return {read_at<uint64_t>(data, at + 32), read_at<uint64_t>(data, at + 40), read_at<uint64_t>(data, at + 48)};
}

Directory find_directory(const uint8_t* data, uint64_t size, const std::string& path) {
    const uint64_t end = find_directory_end(data, size, path);
    if (read_at<uint16_t>(data, end + 4) != 0 || read_at<uint16_t>(data, end + 6) != 0)
        fail(path, ": found a part of a zip archive in several files: join them first");
    Directory directory{read_at<uint16_t>(data, end + 10), read_at<uint32_t>(data, end + 12),
                        read_at<uint32_t>(data, end + 16)};
    if (directory.entries == 0xffff || directory.bytes == kInZip64 || directory.offset == kInZip64)
        directory = read_zip64_end(data, end, path);
    if (!range_fits(directory.offset, directory.bytes, end))
        fail(path, ": the zip directory should have ", directory.bytes, " bytes at byte ", directory.offset,
             ", but the archive has only ", end, "; the file is damaged");
    return directory;
}

struct Sizes {
    uint64_t plain = 0, stored = 0, offset = 0;
};

// Replaces those numbers that do not fit into 32 bits by those of the zip64 extra field, in its fixed order.
void read_zip64_extra(ByteCursor extra, Sizes& sizes) {
    while (extra.left() >= 4) {
        const uint16_t id = extra.read<uint16_t>();
        const uint16_t bytes = extra.read<uint16_t>();
        if (id != kZip64Extra) {
            extra.take(bytes);
            continue;
        }
        for (uint64_t* value : {&sizes.plain, &sizes.stored, &sizes.offset})
            if (*value == kInZip64) *value = extra.read<uint64_t>();
        return;
    }
}

struct Located {
    ZipEntry entry;
    uint64_t begin = 0, end = 0;  // with its local header
};

// `limit` is where the directory begins.
Located locate(ZipEntry entry, const Sizes& sizes, const uint8_t* data, uint64_t limit, const std::string& path) {
    const std::string who = str(path, ": the zip entry ", quote_name(entry.name));
    if (!range_fits(sizes.offset, kLocalHeaderBytes, limit) || read_at<uint32_t>(data, sizes.offset) != kLocalHeader)
        fail(who, " is not at byte ", sizes.offset, ", where it should be; the file is damaged");
    const auto name_bytes = read_at<uint16_t>(data, sizes.offset + 26);
    const uint64_t name_begin = sizes.offset + kLocalHeaderBytes;
    const uint64_t begin = name_begin + name_bytes + read_at<uint16_t>(data, sizes.offset + 28);
    if (!range_fits(begin, sizes.stored, limit))
        fail(who, " should have ", sizes.stored, " bytes at byte ", begin, ", but the archive's data ends at byte ",
             limit, "; the file is damaged");
    if (entry.name != std::string_view(reinterpret_cast<const char*>(data) + name_begin, name_bytes))
        fail(who, " has another name in its own header; the file is damaged");
    entry.data = data + begin;
    entry.bytes = sizes.stored;
    return {std::move(entry), sizes.offset, begin + sizes.stored};
}

Located read_entry(ByteCursor& directory, const uint8_t* data, uint64_t limit) {
    const uint8_t* header = directory.take(kDirectoryEntryBytes);
    if (read_at<uint32_t>(header, 0) != kDirectoryEntry)
        fail(directory.path(), ": the zip directory is damaged at its byte ",
             directory.position() - kDirectoryEntryBytes);
    Sizes sizes{read_at<uint32_t>(header, 24), read_at<uint32_t>(header, 20), read_at<uint32_t>(header, 42)};
    ZipEntry entry;
    entry.name = directory.take_text(read_at<uint16_t>(header, 28));
    const auto extra_bytes = read_at<uint16_t>(header, 30);
    read_zip64_extra(ByteCursor(directory.take(extra_bytes), extra_bytes, directory.path(), "zip directory"), sizes);
    directory.take(read_at<uint16_t>(header, 32));  // a comment
    entry.is_plain = (read_at<uint16_t>(header, 8) & kEncrypted) == 0 && read_at<uint16_t>(header, 10) == kStored;
    if (entry.is_plain && sizes.plain != sizes.stored)
        fail(directory.path(), ": the zip entry ", quote_name(entry.name), " has two sizes, ", sizes.plain, " and ",
             sizes.stored, ", though it is not compressed; the file is damaged");
    return locate(std::move(entry), sizes, data, limit, directory.path());
}

}  // namespace

std::vector<ZipEntry> read_zip(const uint8_t* data, size_t size, const std::string& path) {
    const Directory directory = find_directory(data, size, path);
    ByteCursor cursor(data + directory.offset, directory.bytes, path, "zip directory");
    cursor.checked_count(directory.entries, kDirectoryEntryBytes, "entries");
    std::vector<Located> found;
    std::unordered_set<std::string> names;
    for (uint64_t i = 0; i < directory.entries; ++i) {
        found.push_back(read_entry(cursor, data, directory.offset));
        if (!names.insert(found.back().entry.name).second)
            fail(path, ": the zip entry ", quote_name(found.back().entry.name), " stands in the archive twice");
    }

    std::vector<const Located*> order;
    for (const Located& located : found) order.push_back(&located);
    std::sort(order.begin(), order.end(), [](const Located* a, const Located* b) { return a->begin < b->begin; });
    for (size_t i = 1; i < order.size(); ++i)
        if (order[i]->begin < order[i - 1]->end)
            fail(path, ": the zip entries ", quote_name(order[i - 1]->entry.name), " and ",
                 quote_name(order[i]->entry.name), " overlap; the file is damaged");

    std::vector<ZipEntry> entries;
    for (Located& located : found) entries.push_back(std::move(located.entry));
    return entries;
}

}  // namespace sam3
