#include "media/codecs.h"
#include "media/frame_sources.h"
#include "media/image_io.h"
#include "media/rgb_converter.h"
#include "util/error.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <sstream>
#include <string_view>

extern "C" {
#include <libavutil/imgutils.h>
}

namespace sam3 {
namespace {

constexpr const char* kName = "the pipe";
constexpr std::string_view kY4mMark = "YUV4MPEG2";

// Bytes of a file descriptor; the first ones can be looked at before they are read.
class Pipe {
public:
    explicit Pipe(int descriptor) : descriptor_(descriptor) {}

    std::string_view peek(size_t bytes) {
        start_.resize(bytes);
        start_.resize(fetch(start_.data(), bytes));
        return start_;
    }

    // Fewer than `bytes` only at the end.
    size_t read(uint8_t* to, size_t bytes) {
        const size_t kept = std::min(bytes, start_.size());
        std::memcpy(to, start_.data(), kept);
        start_.erase(0, kept);
        return kept + fetch(reinterpret_cast<char*>(to) + kept, bytes - kept);
    }

    // Up to the line's end, which is taken but not given; nothing at the end of the data.
    std::optional<std::string> read_line() {
        constexpr size_t kLongest = 4096;
        std::string line;
        uint8_t byte = 0;
        while (read(&byte, 1) == 1) {
            if (byte == '\n') return line;
            line += static_cast<char>(byte);
            if (line.size() > kLongest) fail(kName, ": expected a YUV4MPEG2 header, found a line without an end");
        }
        return line.empty() ? std::nullopt : std::optional(line);
    }

private:
    size_t fetch(char* to, size_t bytes) {
        size_t done = 0;
        while (done < bytes) {
            const ssize_t got = ::read(descriptor_, to + done, bytes - done);
            if (got == 0) break;
            if (got > 0)
                done += static_cast<size_t>(got);
            else if (errno != EINTR)
                fail(kName, ": reading frames failed (", std::strerror(errno), ")");
        }
        return done;
    }

    int descriptor_;
    std::string start_;
};

// Frames one after the other; going ahead reads and drops, going back is refused.
class FramePipe : public FrameSource {
public:
    explicit FramePipe(Pipe pipe) : pipe_(std::move(pipe)) {}

    const VideoInfo& info() const override { return info_; }

    bool read(Image& image) override {
        for (; next_ < wanted_; ++next_)
            if (!load(image)) return false;
        if (!load(image)) return false;
        wanted_ = ++next_;
        return true;
    }

    void seek(int64_t frame) override {
        if (frame < next_)
            fail(kName, ": frame ", frame, " was asked for after ", next_,
                 " frames, but a pipe cannot go back; give a file instead");
        wanted_ = frame;
    }

protected:
    // The next frame, as the caller sees it; false at the end.
    virtual bool load(Image& image) = 0;

    [[noreturn]] void cut_short(size_t found, size_t expected, const std::string& advice) {
        ended_ = true;
        fail(kName, ": the data ends inside frame ", next_, ": expected ", expected, " bytes, found ", found, "; ",
             advice);
    }

    Pipe pipe_;
    VideoInfo info_;
    int64_t next_ = 0;    // number of the frame that load() gives
    int64_t wanted_ = 0;  // number of the frame that read() gives
    bool ended_ = false;
};

class RawFrames : public FramePipe {
public:
    RawFrames(Pipe pipe, const FrameOptions& options) : FramePipe(std::move(pipe)) {
        check_image_size(static_cast<uint64_t>(std::max(options.raw_width, 0)),
                         static_cast<uint64_t>(std::max(options.raw_height, 0)), kName, kMaxImagePixels);
        info_.width = options.raw_width;
        info_.height = options.raw_height;
        info_.fps = options.fps;
        info_.codec = "raw";
    }

private:
    bool load(Image& image) override {
        if (ended_) return false;
        if (image.width != info_.width || image.height != info_.height || image.channels != 3)
            image = Image(info_.width, info_.height, 3);
        const size_t bytes = image.row_bytes() * static_cast<size_t>(image.height);
        image.pixels.resize(bytes);
        const size_t found = pipe_.read(image.pixels.data(), bytes);
        if (found != 0 && found != bytes)
            cut_short(found, bytes, str("are the frames RGB24 and ", info_.width, " x ", info_.height, "?"));
        return found == bytes;
    }
};

struct Y4mLayout {
    std::string_view name;  // behind the letter C
    AVPixelFormat format;
};

constexpr Y4mLayout kY4mLayouts[] = {{"420", AV_PIX_FMT_YUV420P},        {"420jpeg", AV_PIX_FMT_YUV420P},
                                     {"420mpeg2", AV_PIX_FMT_YUV420P},   {"420paldv", AV_PIX_FMT_YUV420P},
                                     {"422", AV_PIX_FMT_YUV422P},        {"444", AV_PIX_FMT_YUV444P},
                                     {"mono", AV_PIX_FMT_GRAY8},         {"420p10", AV_PIX_FMT_YUV420P10LE},
                                     {"422p10", AV_PIX_FMT_YUV422P10LE}, {"444p10", AV_PIX_FMT_YUV444P10LE}};

int number_of(std::string_view text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? value : -1;
}

AVPixelFormat y4m_format(std::string_view layout) {
    for (const Y4mLayout& known : kY4mLayouts)
        if (known.name == layout) return known.format;
    fail(kName, ": expected YUV4MPEG2 frames in one of the layouts C420, C422, C444 or Cmono, found C",
         std::string(layout), "; convert them first");
}

class Y4mFrames : public FramePipe {
public:
    Y4mFrames(Pipe pipe, const FrameOptions& options) : FramePipe(std::move(pipe)), frame_(ffmpeg::make_frame()) {
        ffmpeg::silence_log();
        info_.fps = options.fps;
        info_.codec = "y4m";
        frame_->format = AV_PIX_FMT_YUV420P;
        read_header(pipe_.read_line().value_or(""));
        check_image_size(static_cast<uint64_t>(std::max(info_.width, 0)),
                         static_cast<uint64_t>(std::max(info_.height, 0)), kName, kMaxImagePixels);
        frame_->width = info_.width;
        frame_->height = info_.height;
        const auto format = static_cast<AVPixelFormat>(frame_->format);
        frame_bytes_ = static_cast<size_t>(av_image_get_buffer_size(format, info_.width, info_.height, 1));
        // Vector instructions may read behind the end.
        frame_->buf[0] = av_buffer_allocz(frame_bytes_ + AV_INPUT_BUFFER_PADDING_SIZE);
        if (frame_->buf[0] == nullptr) fail("out of memory while preparing a video frame");
        av_image_fill_arrays(frame_->data, frame_->linesize, frame_->buf[0]->data, format, info_.width, info_.height,
                             1);
    }

private:
    void read_header(const std::string& line) {
        std::istringstream words(line.substr(kY4mMark.size()));
        for (std::string word; words >> word;) {
            const std::string_view value = std::string_view(word).substr(1);
            const size_t colon = std::min(value.find(':'), value.size());
            switch (word[0]) {
                case 'W': info_.width = number_of(value); break;
                case 'H': info_.height = number_of(value); break;
                case 'C': frame_->format = y4m_format(value); break;
                case 'F': {
                    const Fraction fps{number_of(value.substr(0, colon)),
                                       number_of(value.substr(std::min(colon + 1, value.size())))};
                    if (fps.numerator > 0 && fps.denominator > 0) info_.fps = fps;
                    break;
                }
                default:
                    if (word == "XCOLORRANGE=FULL") frame_->color_range = AVCOL_RANGE_JPEG;
                    if (word == "XCOLORRANGE=LIMITED") frame_->color_range = AVCOL_RANGE_MPEG;
            }
        }
    }

    bool load(Image& image) override {
        if (ended_) return false;
        const std::optional<std::string> line = pipe_.read_line();
        ended_ = !line.has_value();
        if (ended_) return false;
        if (!line->starts_with("FRAME")) {
            ended_ = true;
            fail(kName, ": expected the word FRAME before frame ", next_, ", found other data; the stream is damaged");
        }
        const size_t found = pipe_.read(frame_->data[0], frame_bytes_);
        if (found != frame_bytes_) cut_short(found, frame_bytes_, "its writer broke off");
        // A frame that is only passed by needs no colours.
        if (next_ == wanted_) converter_.convert(*frame_, info_.width, info_.height, image, kName);
        return true;
    }

    ffmpeg::FramePtr frame_;  // its planes lie one behind the other, as in the stream
    size_t frame_bytes_ = 0;
    RgbConverter converter_;
};

}  // namespace

std::unique_ptr<FrameSource> open_frame_pipe(const FrameOptions& options) {
    Pipe pipe(options.pipe);
    const std::string start(pipe.peek(kY4mMark.size()));
    if (start == kY4mMark) return std::make_unique<Y4mFrames>(std::move(pipe), options);
    if (start.empty()) fail(kName, ": expected frames, found no data");
    if (options.raw_width == 0 && options.raw_height == 0)
        fail(kName, ": expected frames with a YUV4MPEG2 header, or raw RGB24 frames and their size, found ",
             describe_content({reinterpret_cast<const uint8_t*>(start.data()), start.size()}),
             "; say how large they are");
    return std::make_unique<RawFrames>(std::move(pipe), options);
}

}  // namespace sam3
