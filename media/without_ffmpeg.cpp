// What a build without FFmpeg has instead of it (SAM3_FFMPEG=OFF): sentences. Folders of images are read all the same.
#include "media/frame_sources.h"
#include "media/versions.h"
#include "media/video_writer.h"
#include "util/error.h"

namespace sam3 {

namespace {

[[noreturn]] void fail_without_ffmpeg(const std::string& path) {
    fail(path,
         ": this program was built without FFmpeg, so it reads and writes no videos; a folder of images works "
         "instead");
}

}  // namespace

std::string ffmpeg_version() { return "none"; }

std::unique_ptr<FrameSource> open_video_file(const std::string& path) { fail_without_ffmpeg(path); }
std::unique_ptr<FrameSource> open_camera(const std::string& path, const FrameOptions& /*options*/) {
    fail_without_ffmpeg(path);
}
std::unique_ptr<FrameSource> open_frame_pipe(const FrameOptions& /*options*/) { fail_without_ffmpeg("-"); }

class VideoWriter::Impl {
public:
    std::vector<std::string> notes;
};

VideoWriter::VideoWriter(const std::string& path, int /*width*/, int /*height*/,
                         const VideoWriterOptions& /*options*/) {
    fail_without_ffmpeg(path);
}
VideoWriter::VideoWriter(VideoWriter&&) noexcept = default;
VideoWriter& VideoWriter::operator=(VideoWriter&&) noexcept = default;
VideoWriter::~VideoWriter() = default;
// No writer was ever made.
void VideoWriter::copy_audio_from(const std::string& path, double /*start*/) { fail_without_ffmpeg(path); }
void VideoWriter::write(const Image& /*image*/) {}
void VideoWriter::finish() {}
int64_t VideoWriter::frames_written() const { return 0; }
const std::vector<std::string>& VideoWriter::notes() const { return impl_->notes; }

}  // namespace sam3
