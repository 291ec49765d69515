#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sam3 {

// A file inside a zip archive, where it lies: nothing is copied or unpacked.
struct ZipEntry {
    std::string name;
    const uint8_t* data = nullptr;
    uint64_t bytes = 0;
    bool is_plain = true;  // else compressed or encrypted: the bytes mean nothing as they are
};

// The directory of a zip archive in memory, zip64 included. Names are unique, no two entries share bytes and none
// reaches into the directory; everything else fails with a sentence. Checksums are left alone: PyTorch does not always
// write them.
std::vector<ZipEntry> read_zip(const uint8_t* data, size_t size, const std::string& path);

}  // namespace sam3
