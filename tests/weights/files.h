#pragma once

#include "util/error.h"

#include <gtest/gtest.h>

#include <unistd.h>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

// Files made by hand, byte by byte, for the reader tests.
namespace sam3::test {

using Bytes = std::vector<uint8_t>;

class TemporaryFolder {
public:
    TemporaryFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "sam3-weights-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) fail("cannot make a temporary folder");
        path_ = name;
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder() { std::filesystem::remove_all(path_); }

    std::string path() const { return path_.string(); }
    std::string operator/(const std::string& name) const { return (path_ / name).string(); }
    std::string write(const std::string& name, const Bytes& bytes) const {
        std::ofstream file(path_ / name, std::ios::binary);
        file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
        return *this / name;
    }
    std::string write(const std::string& name, const std::string& text) const {
        return write(name, Bytes(text.begin(), text.end()));
    }

private:
    std::filesystem::path path_;
};

inline Bytes read_bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    EXPECT_TRUE(file.good()) << path;
    return Bytes(std::istreambuf_iterator<char>(file), {});
}

template <typename T>
void append(Bytes& bytes, T value) {
    const auto* start = reinterpret_cast<const uint8_t*>(&value);
    bytes.insert(bytes.end(), start, start + sizeof value);
}

inline void append_text(Bytes& bytes, const std::string& text) {
    append<uint64_t>(bytes, text.size());
    bytes.insert(bytes.end(), text.begin(), text.end());
}

inline Bytes safetensors(const std::string& header, const Bytes& data = {}) {
    Bytes bytes;
    append_text(bytes, header);
    bytes.insert(bytes.end(), data.begin(), data.end());
    return bytes;
}

template <typename T>
Bytes bytes_of(std::initializer_list<T> values) {
    Bytes bytes;
    for (T value : values) append(bytes, value);
    return bytes;
}

// The sentence of the Error that the call throws; empty, and a failed test, when it throws none.
inline std::string error_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& error) {
        return error.what();
    }
    ADD_FAILURE() << "no error was thrown";
    return "";
}

inline void expect_contains(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << "expected \"" << part << "\" in \"" << text << "\"";
}

}  // namespace sam3::test
