#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sam3 {

// A file that is there whole or not at all: written under another name in the same folder, brought to the disk and then
// renamed. Not finished, it leaves nothing behind. One thread at a time.
class AtomicFile {
public:
    // Fails with a sentence when `path` is a folder, its folder is missing or nothing can be written there.
    explicit AtomicFile(std::string path);
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;
    ~AtomicFile();

    void write(std::string_view text);
    void write(std::span<const uint8_t> bytes);
    void finish();  // the file has its name from here on

private:
    [[noreturn]] void give_up();
    void flush();

    std::string path_, temporary_;
    int file_ = -1;
    uint64_t bytes_ = 0;
    std::string pending_;  // small pieces go out together
};

// The name of the file that NAME.part1234-5 was to become, which is left when a process is killed; empty for others.
std::string name_behind_leftover(const std::string& name);

void write_file_atomically(const std::string& path, std::span<const uint8_t> bytes);
void write_file_atomically(const std::string& path, std::string_view text);

}  // namespace sam3
