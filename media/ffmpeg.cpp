#include "media/ffmpeg.h"

#include "media/image_io.h"
#include "media/versions.h"
#include "util/error.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

namespace sam3::ffmpeg {
namespace {

namespace fs = std::filesystem;

// Names of FFmpeg's demuxers. Left out are those that open other files (playlists) and those that take any text.
constexpr const char* kFormats =
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpeg,mpegts,mpegvideo,flv,ogg,asf,gif,apng,yuv4mpegpipe,h264,hevc,obu,"
    "av1,ivf,m4v,mjpeg,nut,mxf,rm,dv,wav,w64,mp3,aac,flac,ac3,aiff,caf,amr";

struct Log {
    std::mutex mutex;
    std::string last;
};

Log& the_log() {
    static Log log;
    return log;
}

__attribute__((format(printf, 3, 0))) void keep_errors(void*, int level, const char* format, va_list arguments) {
    if (level > AV_LOG_ERROR) return;
    std::array<char, 256> text{};
    const int length = vsnprintf(text.data(), text.size(), format, arguments);
    std::string message(text.data());
    while (!message.empty() && (message.back() == '\n' || message.back() == '.')) message.pop_back();
    if (length <= 0 || message.empty()) return;
    const std::lock_guard lock(the_log().mutex);
    the_log().last = message;
}

// Fails when `path` is nothing that can be read from both ends.
void check_file(const std::string& path, const char* expected) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) fail(path, ": expected ", expected, ", found nothing there; check the path");
    if (!fs::is_regular_file(status))
        fail(path, ": expected a file with ", expected, ", found ", fs::is_directory(status) ? "a folder" : "no file",
             "; frames from a pipe are read with - as the name");
    if (!std::ifstream(path)) fail(path, ": the file cannot be opened; check its permissions");
}

std::string content_of(const std::string& path) {
    std::array<char, 4096> start{};
    std::ifstream file(path, std::ios::binary);
    file.read(start.data(), start.size());
    return describe_content({reinterpret_cast<const uint8_t*>(start.data()), static_cast<size_t>(file.gcount())});
}

[[noreturn]] void refuse(const std::string& path, const char* expected, int code) {
    const std::string content = content_of(path);
    if (content.find("video") != std::string::npos)
        fail(path, ": expected ", expected, ", found ", content, " whose header cannot be read (", reason(code),
             "); the file is truncated or damaged, copy it again");
    if (content.find("unknown") != std::string::npos)
        fail(path, ": expected ", expected, ", found ", content, " (", reason(code), "); check the path");
    fail(path, ": expected ", expected, ", found ", content, "; check the path");
}

}  // namespace

FramePtr make_frame() {
    FramePtr frame(av_frame_alloc());
    if (!frame) fail("out of memory while preparing a video frame");
    return frame;
}

PacketPtr make_packet() {
    PacketPtr packet(av_packet_alloc());
    if (!packet) fail("out of memory while preparing a video packet");
    return packet;
}

void silence_log() {
    av_log_set_callback(keep_errors);
    const std::lock_guard lock(the_log().mutex);
    the_log().last.clear();
}

std::string reason(int code) {
    std::array<char, AV_ERROR_MAX_STRING_SIZE> text{};
    av_strerror(code, text.data(), text.size());
    const std::lock_guard lock(the_log().mutex);
    const std::string& last = the_log().last;
    if (last.empty()) return code == 0 ? "without a reason given" : text.data();
    return code < 0 && code != AVERROR_EOF ? str(text.data(), ": ", last) : last;
}

InputPtr open_input(const std::string& path, const char* expected) {
    check_file(path, expected);
    silence_log();
    AVDictionary* options = nullptr;
    av_dict_set(&options, "protocol_whitelist", "file", 0);
    av_dict_set(&options, "format_whitelist", kFormats, 0);
    AVFormatContext* context = nullptr;
    const int opened = avformat_open_input(&context, ("file:" + path).c_str(), nullptr, &options);
    av_dict_free(&options);
    if (opened < 0) refuse(path, expected, opened);
    InputPtr input(context);
    const int found = avformat_find_stream_info(context, nullptr);
    if (found < 0) refuse(path, expected, found);
    return input;
}

CodecPtr open_decoder(const AVStream* stream, const std::string& name) {
    constexpr unsigned kMostThreads = 4;
    const char* kind = avcodec_get_name(stream->codecpar->codec_id);
    const AVCodec* codec = avcodec_find_decoder(stream->codecpar->codec_id);
    if (codec == nullptr)
        fail(name, ": the FFmpeg on this system has no decoder for ", kind, "; convert the video to H.264");
    CodecPtr decoder(avcodec_alloc_context3(codec));
    if (!decoder) fail("out of memory while preparing a video decoder");
    int result = avcodec_parameters_to_context(decoder.get(), stream->codecpar);
    decoder->pkt_timebase = stream->time_base;
    decoder->max_pixels = kMaxImagePixels;
    decoder->thread_count = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, kMostThreads));
    if (result >= 0) result = avcodec_open2(decoder.get(), codec, nullptr);
    if (result < 0)
        fail(name, ": the ", kind, " decoder cannot be started (", reason(result),
             "); the file's header may be damaged");
    return decoder;
}

}  // namespace sam3::ffmpeg

namespace sam3 {

std::string ffmpeg_version() { return av_version_info(); }

}  // namespace sam3
