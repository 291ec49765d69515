#pragma once

#include "image/image.h"
#include "media/image_io.h"
#include "media/video_writer.h"
#include "util/error.h"

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

// Small clips whose frames carry their number, and what else the media tests share.
namespace sam3::test {

// A folder of its own for each test.
struct Scratch {
    std::filesystem::path path;
    Scratch() {
        std::string pattern = (std::filesystem::temp_directory_path() / "sam3_media_XXXXXX").string();
        path = mkdtemp(pattern.data());
    }
    ~Scratch() { std::filesystem::remove_all(path); }
    std::string file(const std::string& name) const { return (path / name).string(); }
    size_t entries() const {
        const std::filesystem::directory_iterator all(path);
        return static_cast<size_t>(std::distance(begin(all), end(all)));
    }
};

inline std::string message_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

constexpr int kBits = 8;

// Black and white blocks for the number's bits in the upper half; below, colours that move with the number.
inline Image numbered_frame(int number, int width, int height) {
    Image image(width, height, 3);
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x) {
            uint8_t* pixel = image.at(x, y);
            const int bit = number >> (x * kBits / width) & 1;
            for (int c = 0; c < 3; ++c)
                pixel[c] = y < height / 2 ? static_cast<uint8_t>(bit * 255)
                                          : static_cast<uint8_t>((x * (c + 1) + y * 2 + number * 5) & 255);
        }
    return image;
}

inline int number_of(const Image& image) {
    int number = 0;
    for (int bit = 0; bit < kBits; ++bit)
        if (*image.at((2 * bit + 1) * image.width / (2 * kBits), image.height / 4) > 128) number |= 1 << bit;
    return number;
}

// H.264 with B-frames and a key frame every 12.
inline std::string write_clip(const std::string& path, int frames, int width = 96, int height = 64) {
    VideoWriter writer(path, width, height, {.fps = {25, 1}, .key_interval = 12});
    for (int i = 0; i < frames; ++i) writer.write(numbered_frame(i, width, height));
    writer.finish();
    return path;
}

// MP3 frames of silence, 1152 samples at 44.1 kHz each, with their numbers in bytes that no decoder looks at.
inline std::string sound_mark(int number) { return "sound" + std::to_string(1000 + number); }
inline std::vector<uint8_t> mp3_sound(int frames) {
    constexpr size_t kFrameBytes = 417;
    std::vector<uint8_t> bytes;
    for (int i = 0; i < frames; ++i) {
        const size_t start = bytes.size();
        bytes.resize(start + kFrameBytes);
        const uint8_t header[] = {0xFF, 0xFB, 0x90, 0x00};
        std::copy_n(header, 4, bytes.begin() + static_cast<std::ptrdiff_t>(start));
        const std::string mark = sound_mark(i);
        std::copy(mark.begin(), mark.end(), bytes.begin() + static_cast<std::ptrdiff_t>(start + 200));
    }
    return bytes;
}

}  // namespace sam3::test
