#include "util/atomic_file.h"

#include "util/error.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace sam3 {

namespace {

constexpr size_t kPendingBytes = size_t{1} << 18;

// In the same folder, so that the rename stays inside one file system; the count keeps threads apart.
std::string part_name(const std::string& path) {
    static std::atomic<unsigned> count{0};
    return path + ".part" + std::to_string(::getpid()) + "-" + std::to_string(count++);
}

}  // namespace

std::string name_behind_leftover(const std::string& name) {
    const size_t part = name.rfind(".part");
    if (part == std::string::npos) return {};
    const std::string rest = name.substr(part + 5);
    const bool numbers =
        rest.find('-') != std::string::npos && rest.find_first_not_of("0123456789-") == std::string::npos;
    return numbers ? name.substr(0, part) : std::string();
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), temporary_(part_name(path_)) {
    namespace fs = std::filesystem;
    std::error_code error;
    if (fs::is_directory(path_, error)) fail(path_, ": expected the name of a file to write, found a folder");
    const fs::path folder = fs::path(path_).parent_path();
    if (!folder.empty() && !fs::is_directory(folder, error))
        fail(path_, ": the folder ", folder.string(), " does not exist; create it first");
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file_ < 0) fail(path_, ": the file cannot be written (", std::strerror(errno), ")");
}

AtomicFile::~AtomicFile() {
    if (file_ < 0) return;
    ::close(file_);
    ::unlink(temporary_.c_str());
}

void AtomicFile::give_up() {
    const std::string why = std::strerror(errno);
    fail(path_, ": writing ", bytes_, " bytes failed (", why, "); is the disk full or the folder read-only?");
}

void AtomicFile::flush() {
    const char* at = pending_.data();
    for (size_t left = pending_.size(); left > 0;) {
        const ssize_t written = ::write(file_, at, left);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) give_up();
        at += written;
        left -= static_cast<size_t>(written);
    }
    pending_.clear();
}

void AtomicFile::write(std::string_view text) {
    bytes_ += text.size();
    pending_ += text;
    if (pending_.size() >= kPendingBytes) flush();
}

void AtomicFile::write(std::span<const uint8_t> bytes) {
    write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void AtomicFile::finish() {
    flush();
    if (::fsync(file_) != 0 && errno != EINVAL && errno != ENOTSUP) give_up();  // some file systems cannot
    const int file = file_;
    file_ = -1;
    if (::close(file) == 0 && ::rename(temporary_.c_str(), path_.c_str()) == 0) return;
    const std::string why = std::strerror(errno);
    ::unlink(temporary_.c_str());
    fail(path_, ": the written file cannot be given its name (", why, ")");
}

void write_file_atomically(const std::string& path, std::span<const uint8_t> bytes) {
    AtomicFile file(path);
    file.write(bytes);
    file.finish();
}

void write_file_atomically(const std::string& path, std::string_view text) {
    AtomicFile file(path);
    file.write(text);
    file.finish();
}

}  // namespace sam3
