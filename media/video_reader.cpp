#include "media/video_reader.h"

#include "media/frame_sources.h"
#include "util/error.h"

#include <filesystem>

namespace sam3 {

double FrameSource::time_of(int64_t frame) const { return static_cast<double>(frame) / info().fps.value(); }

Image FrameSource::frame(int64_t index) {
    Image image;
    seek(index);
    if (read(image)) return image;
    const int64_t count = info().frame_count;
    fail("frame ", index, " does not exist: the video ", count < 0 ? "ends" : str("has ", count, " frames"),
         count < 0 ? " before it" : "");
}

int64_t FrameSource::count_frames() {
    if (info().frame_count < 0) {
        constexpr int64_t kBeyondAnyVideo = int64_t{1} << 62;
        Image image;
        seek(kBeyondAnyVideo);
        read(image);
    }
    seek(0);
    return info().frame_count;
}

bool is_camera(const std::string& path) { return path.starts_with("camera:"); }

std::unique_ptr<FrameSource> open_frames(const std::string& path, const FrameOptions& options) {
    if (options.fps.numerator <= 0 || options.fps.denominator <= 0)
        fail("expected a positive number of frames a second, found ", options.fps.numerator, "/",
             options.fps.denominator);
    std::error_code error;
    if (is_camera(path)) return open_camera(path, options);
    if (path == "-") return open_frame_pipe(options);
    if (std::filesystem::is_directory(path, error)) return open_frame_folder(path, options);
    return open_video_file(path);
}

}  // namespace sam3
