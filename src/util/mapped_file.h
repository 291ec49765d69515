#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sam3 {

// A regular file mapped read-only into memory. Pages are read when touched; nothing is copied.
// The file must not be shortened while it is mapped: reading behind its new end ends the process.
class MappedFile {
public:
    // Fails with a sentence for a missing file, a folder, an empty file or anything that is not a regular file.
    explicit MappedFile(const std::string& path);
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile();

    const std::string& path() const { return path_; }
    const uint8_t* data() const { return data_; }
    size_t size() const { return size_; }
    bool contains(const uint8_t* address) const { return address >= data_ && address < data_ + size_; }

    // Lets the system start reading a range that will soon be touched, in large pieces.
    void prefetch(const uint8_t* address, size_t bytes) const;
    // Lets the system take back the memory of the whole pages inside a range; they are read again when touched.
    void release(const uint8_t* address, size_t bytes) const;

private:
    std::string path_;
    const uint8_t* data_ = nullptr;
    size_t size_ = 0;
};

}  // namespace sam3
