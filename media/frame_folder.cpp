#include "media/frame_sources.h"
#include "media/image_io.h"
#include "media/image_names.h"
#include "util/error.h"

#include <filesystem>
#include <vector>

namespace sam3 {
namespace {

namespace fs = std::filesystem;

class FrameFolder : public FrameSource {
public:
    FrameFolder(const std::string& folder, const FrameOptions& options)
        : folder_(folder), names_(image_names(folder, false)) {
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
