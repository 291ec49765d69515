#include "util/mapped_file.h"

#include "util/error.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>

namespace sam3 {

namespace {

class Descriptor {
public:
    // Non-blocking, so that opening a named pipe returns instead of waiting for a writer.
    explicit Descriptor(const std::string& path) : value_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (value_ >= 0) ::close(value_);
    }
    int value() const { return value_; }

private:
    int value_;
};

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
    if (path.find('\0') != std::string::npos) fail("expected a file name, found one with a zero byte inside");
    const Descriptor file(path);
    if (file.value() < 0) {
        if (errno == ENOENT || errno == ENOTDIR) fail("there is no file ", path, ": check the path");
        if (errno == EACCES) fail("no permission to read ", path);
        fail("cannot open ", path, ": ", std::strerror(errno));
    }
    struct stat status {};
    if (::fstat(file.value(), &status) != 0) fail("cannot read the size of ", path, ": ", std::strerror(errno));
    if (S_ISDIR(status.st_mode)) fail("expected a file, found a folder: ", path);
    if (!S_ISREG(status.st_mode)) fail("expected a regular file, found a pipe, socket or device: ", path);
    if (status.st_size == 0) fail("the file ", path, " is empty (0 bytes): was its download interrupted?");

    size_ = static_cast<size_t>(status.st_size);
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.value(), 0);
    if (address == MAP_FAILED) fail("cannot map ", path, " (", size_, " bytes) into memory: ", std::strerror(errno));
    data_ = static_cast<const uint8_t*>(address);
}

MappedFile::~MappedFile() { ::munmap(const_cast<uint8_t*>(data_), size_); }

void MappedFile::prefetch(const uint8_t* address, size_t bytes) const {
    if (!contains(address)) return;
    const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t begin = static_cast<size_t>(address - data_);
    const size_t end = begin + std::min(bytes, size_ - begin);
    const size_t first = begin / page * page;
    ::madvise(const_cast<uint8_t*>(data_) + first, end - first, MADV_WILLNEED);
}

void MappedFile::release(const uint8_t* address, size_t bytes) const {
    if (!contains(address)) return;
    const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t begin = static_cast<size_t>(address - data_);
    const size_t end = begin + std::min(bytes, size_ - begin);
    const size_t first = (begin + page - 1) / page * page;
    const size_t last = end / page * page;
    if (first < last) ::madvise(const_cast<uint8_t*>(data_) + first, last - first, MADV_DONTNEED);
}

}  // namespace sam3
