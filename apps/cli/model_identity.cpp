#include "model_identity.h"

#include "util/error.h"
#include "util/sha256.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <vector>

namespace sam3::cli {

namespace {

namespace fs = std::filesystem;

void add_file(Sha256& hash, const fs::path& path, uint64_t bytes) {
    constexpr uint64_t kStart = 65536, kSample = 4096, kSamples = 64;
    std::ifstream file(path, std::ios::binary);
    std::array<char, kStart> buffer{};
    const auto add = [&](uint64_t offset, uint64_t length) {
        file.seekg(static_cast<std::streamoff>(offset));
        file.read(buffer.data(), static_cast<std::streamsize>(length));
        if (!file) fail(path.string(), ": the file cannot be read; check its permissions");
        hash.add(buffer.data(), length);
    };
    add(0, std::min(bytes, kStart));
    // Fine-tuned weights have the same header and the same size: only the values tell.
    for (uint64_t i = 1; bytes > kStart + kSample && i <= kSamples; ++i) add((bytes - kSample) / kSamples * i, kSample);
}

}  // namespace

nlohmann::ordered_json model_identity(const std::string& path) {
    std::vector<fs::path> files;
    std::error_code error;
    if (fs::is_directory(path, error)) {
        for (const auto& entry : fs::directory_iterator(path))
            if (entry.is_regular_file()) files.push_back(entry.path());
        std::sort(files.begin(), files.end());
    } else {
        files.emplace_back(path);
    }
    Sha256 hash;
    uint64_t total = 0;
    for (const fs::path& file : files) {
        const uint64_t bytes = fs::file_size(file, error);
        if (error) fail(file.string(), ": expected a model, found nothing that can be read (", error.message(), ")");
        const std::string head = str(files.size() > 1 ? file.filename().string() : "", ":", bytes, ":");
        hash.add(head.data(), head.size());
        add_file(hash, file, bytes);
        total += bytes;
    }
    return {{"bytes", total}, {"fingerprint", hash.hex()}};
}

}  // namespace sam3::cli
