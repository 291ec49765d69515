#include "media/codecs.h"
#include "media/frame_sources.h"
#include "media/image_io.h"
#include "media/rgb_converter.h"
#include "util/error.h"

#include <dlfcn.h>

#include <string_view>

namespace sam3 {
namespace {

constexpr std::string_view kCameraMark = "camera:";
constexpr std::string_view kSyntheticMark = "lavfi:";

// libavdevice draws in X11, SDL and sound servers, so it is loaded when a camera is asked for and not before. Its
// major version is that of libavformat.
void load_devices() {
    const std::string name = "libavdevice.so." + std::to_string(LIBAVFORMAT_VERSION_MAJOR);
    void* library = dlopen(name.c_str(), RTLD_NOW);  // stays for the life of the process
    auto* const register_all =
        library == nullptr ? nullptr : reinterpret_cast<void (*)()>(dlsym(library, "avdevice_register_all"));
    if (register_all == nullptr)
        fail("cameras need FFmpeg's ", name, ", which was not found; on Debian 12 it is in the package libavdevice59");
    register_all();
}

class Camera : public FrameSource {
public:
    Camera(const std::string& name, const FrameOptions& options) : name_(name) {
        load_devices();
        std::string device = name.substr(kCameraMark.size());
        const bool synthetic = device.starts_with(kSyntheticMark);
        if (synthetic) device = device.substr(kSyntheticMark.size());
        if (device.empty()) device = "/dev/video0";
        open(device, synthetic ? "lavfi" : "v4l2", options);
        if (!decode()) fail(name_, ": the camera gives no pictures");
        check_image_size(static_cast<uint64_t>(frame_->width), static_cast<uint64_t>(frame_->height), name_,
                         kMaxImagePixels);
        const AVRational rate = av_guess_frame_rate(input_.get(), stream_, nullptr);
        info_.width = frame_->width;
        info_.height = frame_->height;
        info_.fps = rate.num > 0 && rate.den > 0 ? Fraction{rate.num, rate.den} : options.fps;
        info_.codec = "camera";
    }

    const VideoInfo& info() const override { return info_; }

    bool read(Image& image) override {
        while (waits_ || decode()) {
            waits_ = false;
            if (next_++ < wanted_) continue;
            wanted_ = next_;
            converter_.convert(*frame_, info_.width, info_.height, image, name_);
            return true;
        }
        return false;
    }

    void seek(int64_t frame) override {
        if (frame < next_) fail(name_, ": a camera cannot go back to frame ", frame);
        wanted_ = frame;
    }

private:
    void open(const std::string& device, const char* kind, const FrameOptions& options) {
        ffmpeg::silence_log();
        const AVInputFormat* format = av_find_input_format(kind);
        if (format == nullptr) fail(name_, ": FFmpeg on this system cannot read ", kind, " devices");
        AVDictionary* settings = nullptr;
        if (options.raw_width > 0)
            av_dict_set(&settings, "video_size", str(options.raw_width, "x", options.raw_height).c_str(), 0);
        AVFormatContext* context = nullptr;
        const int opened = avformat_open_input(&context, device.c_str(), format, &settings);
        av_dict_free(&settings);
        if (opened < 0)
            fail(name_, ": the camera cannot be opened (", ffmpeg::reason(opened),
                 "); is it there, and may this user read it?");
        input_.reset(context);
        const int best = avformat_find_stream_info(context, nullptr) < 0
                             ? -1
                             : av_find_best_stream(context, AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
        if (best < 0) fail(name_, ": the device gives no pictures (", ffmpeg::reason(best), ")");
        stream_ = context->streams[best];
        decoder_ = ffmpeg::open_decoder(stream_, name_);
        waits_ = false;
    }

    // The next picture into frame_; false at the end, which only synthetic cameras have.
    bool decode() {
        while (true) {
            const int received = avcodec_receive_frame(decoder_.get(), frame_.get());
            if (received >= 0) {
                waits_ = true;
                return true;
            }
            if (received != AVERROR(EAGAIN)) return false;
            const int result = av_read_frame(input_.get(), packet_.get());
            if (result == AVERROR(EAGAIN)) continue;
            if (result < 0 && result != AVERROR_EOF) fail(name_, ": the camera stopped (", ffmpeg::reason(result), ")");
            const bool ours = result >= 0 && packet_->stream_index == stream_->index;
            if (result < 0 || ours) avcodec_send_packet(decoder_.get(), result < 0 ? nullptr : packet_.get());
            av_packet_unref(packet_.get());
        }
    }

    std::string name_;
    VideoInfo info_;
    ffmpeg::InputPtr input_;
    ffmpeg::CodecPtr decoder_;
    AVStream* stream_ = nullptr;  // owned by input_
    ffmpeg::PacketPtr packet_ = ffmpeg::make_packet();
    ffmpeg::FramePtr frame_ = ffmpeg::make_frame();
    RgbConverter converter_;
    bool waits_ = false;  // frame_ was decoded but not yet given
    int64_t next_ = 0;    // number of the picture in frame_ or after it
    int64_t wanted_ = 0;  // number that read() gives
};

}  // namespace

std::unique_ptr<FrameSource> open_camera(const std::string& path, const FrameOptions& options) {
    return std::make_unique<Camera>(path, options);
}

}  // namespace sam3
