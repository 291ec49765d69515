#pragma once

#include "tests/weights/files.h"

#include <utility>

// Zip archives made by hand: what PyTorch writes, and what it never would.
namespace sam3::test {

struct ZipOptions {
    bool zip64 = false;        // every size and place in the 64-bit fields
    bool descriptors = false;  // sizes behind the data instead of before it, as PyTorch's writer has them
    std::string comment;
    uint16_t method = 0;  // 0: stored, 8: deflated
    uint16_t flags = 0;
};

using ZipParts = std::vector<std::pair<std::string, Bytes>>;

inline void append_bytes(Bytes& bytes, const std::string& text) { bytes.insert(bytes.end(), text.begin(), text.end()); }

inline void append_sizes(Bytes& bytes, const ZipOptions& options, size_t size) {
    append<uint32_t>(bytes, 0);  // checksum
    append<uint32_t>(bytes, options.zip64 ? 0xffffffff : static_cast<uint32_t>(size));
    append<uint32_t>(bytes, options.zip64 ? 0xffffffff : static_cast<uint32_t>(size));
}

inline Bytes make_zip(const ZipParts& parts, const ZipOptions& options = {}) {
    Bytes bytes, directory;
    for (const auto& [name, data] : parts) {
        const size_t begin = bytes.size();
        append<uint32_t>(bytes, 0x04034b50);
        for (uint16_t field : {uint16_t{45}, options.flags, options.method, uint16_t{0}, uint16_t{0}})
            append(bytes, field);
        append_sizes(bytes, options, options.descriptors ? 0 : data.size());
        append<uint16_t>(bytes, static_cast<uint16_t>(name.size()));
        append<uint16_t>(bytes, 4);
        append_bytes(bytes, name);
        append<uint32_t>(bytes, 0x00004246);  // an extra field without content
        bytes.insert(bytes.end(), data.begin(), data.end());
        if (options.descriptors) {
            append<uint32_t>(bytes, 0x08074b50);
            append_sizes(bytes, {}, data.size());
        }

        append<uint32_t>(directory, 0x02014b50);
        for (uint16_t field : {uint16_t{0}, uint16_t{45}, options.flags, options.method, uint16_t{0}, uint16_t{0}})
            append(directory, field);
        append_sizes(directory, options, data.size());
        append<uint16_t>(directory, static_cast<uint16_t>(name.size()));
        append<uint16_t>(directory, options.zip64 ? 28 : 0);
        for (int i = 0; i < 5; ++i) append<uint16_t>(directory, 0);
        append<uint32_t>(directory, options.zip64 ? 0xffffffff : static_cast<uint32_t>(begin));
        append_bytes(directory, name);
        if (options.zip64) {
            append<uint16_t>(directory, 1);
            append<uint16_t>(directory, 24);
            for (uint64_t field : {data.size(), data.size(), begin}) append<uint64_t>(directory, field);
        }
    }
    const uint64_t begin = bytes.size(), count = parts.size(), size = directory.size();
    bytes.insert(bytes.end(), directory.begin(), directory.end());
    if (options.zip64) {
        const uint64_t end = bytes.size();
        append<uint32_t>(bytes, 0x06064b50);
        append<uint64_t>(bytes, 44);
        append<uint32_t>(bytes, 45);
        append<uint64_t>(bytes, 0);  // disks
        for (uint64_t field : {count, count, size, begin}) append(bytes, field);
        append<uint32_t>(bytes, 0x07064b50);
        append<uint32_t>(bytes, 0);
        append(bytes, end);
        append<uint32_t>(bytes, 1);
    }
    append<uint32_t>(bytes, 0x06054b50);
    append<uint32_t>(bytes, 0);  // disks
    append<uint16_t>(bytes, options.zip64 ? 0xffff : static_cast<uint16_t>(count));
    append<uint16_t>(bytes, options.zip64 ? 0xffff : static_cast<uint16_t>(count));
    append<uint32_t>(bytes, options.zip64 ? 0xffffffff : static_cast<uint32_t>(size));
    append<uint32_t>(bytes, options.zip64 ? 0xffffffff : static_cast<uint32_t>(begin));
    append<uint16_t>(bytes, static_cast<uint16_t>(options.comment.size()));
    append_bytes(bytes, options.comment);
    return bytes;
}

}  // namespace sam3::test
