#include "media/frame_sources.h"
#include "media/image_io.h"
#include "util/error.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <vector>

namespace sam3 {
namespace {

namespace fs = std::filesystem;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes the run of digits at the start of `text`, without its leading zeros.
std::string_view take_number(std::string_view& text) {
    const size_t length = std::min(text.size(), text.find_first_not_of("0123456789"));
    std::string_view digits = text.substr(0, length);
    text.remove_prefix(length);
    digits.remove_prefix(std::min(digits.size(), digits.find_first_not_of('0')));
    return digits;
}

// Runs of digits compare as numbers of any length, everything else byte by byte.
bool natural_less(const std::string& first, const std::string& second) {
    std::string_view a = first, b = second;
    while (!a.empty() && !b.empty()) {
        if (is_digit(a.front()) && is_digit(b.front())) {
            const std::string_view m = take_number(a), n = take_number(b);
            if (m.size() != n.size()) return m.size() < n.size();
            if (m != n) return m < n;
            continue;
        }
        if (a.front() != b.front()) return static_cast<uint8_t>(a.front()) < static_cast<uint8_t>(b.front());
        a.remove_prefix(1);
        b.remove_prefix(1);
    }
    return a.empty() == b.empty() ? first < second : a.empty();
}

bool is_image_name(const fs::path& path) {
    std::string ending = path.extension().string();
    std::transform(ending.begin(), ending.end(), ending.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return path.filename().string().front() != '.' &&
           (ending == ".jpg" || ending == ".jpeg" || ending == ".png" || ending == ".webp");
}

std::vector<std::string> image_names(const std::string& folder) {
    std::error_code error;
    std::vector<std::string> names;
    size_t others = 0;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        if (is_image_name(entry->path()))
            names.push_back(entry->path().filename().string());
        else
            ++others;
    }
    if (error) fail(folder, ": the folder cannot be read (", error.message(), ")");
    if (names.empty())
        fail(folder, ": expected a folder of .jpg, .png or .webp images, found ",
             others == 0 ? "an empty one" : str("none among ", others, " entries"));
    std::sort(names.begin(), names.end(), natural_less);
    return names;
}

class FrameFolder : public FrameSource {
public:
    FrameFolder(const std::string& folder, const FrameOptions& options) : folder_(folder), names_(image_names(folder)) {
        const Image first = read_image(path_of(0));
        info_.width = first.width;
        info_.height = first.height;
        info_.fps = options.fps;
        info_.frame_count = static_cast<int64_t>(names_.size());
        info_.duration = static_cast<double>(info_.frame_count) / info_.fps.value();
        info_.codec = "images";
    }

    const VideoInfo& info() const override { return info_; }

    bool read(Image& image) override {
        if (next_ >= info_.frame_count) return false;
        const std::string path = path_of(next_++);
        Image found = read_image(path);
        if (found.width != info_.width || found.height != info_.height)
            fail(path, ": expected an image of ", info_.width, " x ", info_.height, " pixels as ", names_.front(),
                 ", found ", found.width, " x ", found.height, "; the frames of a video have one size");
        image = std::move(found);
        return true;
    }

    void seek(int64_t frame) override {
        if (frame < 0) fail(folder_, ": expected a frame number from 0, found ", frame);
        next_ = frame;
    }

private:
    std::string path_of(int64_t index) const {
        return (fs::path(folder_) / names_[static_cast<size_t>(index)]).string();
    }

    std::string folder_;
    std::vector<std::string> names_;
    VideoInfo info_;
    int64_t next_ = 0;
};

}  // namespace

std::unique_ptr<FrameSource> open_frame_folder(const std::string& path, const FrameOptions& options) {
    return std::make_unique<FrameFolder>(path, options);
}

}  // namespace sam3
