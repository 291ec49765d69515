#pragma once

#include "util/error.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace sam3 {

// Reads bytes of a file one after the other; every read is checked against what is left. `what` names them in messages
// ("GGUF header"). The path and the bytes must outlive it.
class ByteCursor {
public:
    ByteCursor(const uint8_t* data, size_t size, const std::string& path, std::string_view what)
        : data_(data), size_(size), path_(path), what_(what) {}

    uint64_t position() const { return position_; }
    uint64_t left() const { return size_ - position_; }
    uint64_t size() const { return size_; }
    const std::string& path() const { return path_; }

    template <typename T>
    T read() {
        T value;
        std::memcpy(&value, take(sizeof(T)), sizeof(T));
        return value;
    }

    const uint8_t* take(uint64_t bytes) {
        if (bytes > left())
            fail(path_, ": the ", what_, " ends too early (", bytes, " bytes wanted at byte ", position_, " of ", size_,
                 "): was its download interrupted?");
        const uint8_t* start = data_ + position_;
        position_ += bytes;
        return start;
    }

    std::string_view take_text(uint64_t bytes) { return {reinterpret_cast<const char*>(take(bytes)), bytes}; }

    // A count of things that take at least `smallest` bytes each.
    uint64_t checked_count(uint64_t count, uint64_t smallest, std::string_view things) const {
        if (count > left() / smallest)
            fail(path_, ": the ", what_, " announces ", count, " ", things, ", more than its ", size_,
                 " bytes can hold");
        return count;
    }

private:
    const uint8_t* data_;
    uint64_t size_;
    uint64_t position_ = 0;
    const std::string& path_;
    std::string_view what_;
};

}  // namespace sam3
