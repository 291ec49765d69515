#include "media/video_writer.h"

#include "media/audio_copy.h"
#include "media/codecs.h"
#include "media/ffmpeg.h"
#include "media/image_io.h"
#include "util/error.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

namespace sam3 {
namespace {

namespace fs = std::filesystem;

constexpr int kRowsOfHd = 720;

int even(int side) { return side + side % 2; }

void check_arguments(const std::string& path, int width, int height, const VideoWriterOptions& options) {
    std::error_code error;
    if (fs::path(path).extension() != ".mp4") fail(path, ": expected the name of a video that ends in .mp4");
    if (fs::is_directory(path, error)) fail(path, ": expected the name of a file to write, found a folder");
    const fs::path folder = fs::path(path).parent_path();
    if (!folder.empty() && !fs::is_directory(folder, error))
        fail(path, ": the folder ", folder.string(), " does not exist; create it first");
    check_image_size(static_cast<uint64_t>(std::max(width, 0)), static_cast<uint64_t>(std::max(height, 0)), path,
                     kMaxImagePixels);
    if (options.fps.numerator <= 0 || options.fps.denominator <= 0)
        fail(path, ": expected a positive number of frames a second, found ", options.fps.numerator, "/",
             options.fps.denominator);
    if (options.crf < 0 || options.crf > 51) fail(path, ": expected a quality from 0 to 51, found ", options.crf);
    if (options.key_interval < 0)
        fail(path, ": expected a key frame interval of 0 or more frames, found ", options.key_interval);
}

// Repeats the last column and row of `image` where `padded` is larger.
void pad(const Image& image, Image& padded) {
    for (int y = 0; y < padded.height; ++y) {
        const uint8_t* row = image.row(std::min(y, image.height - 1));
        std::copy_n(row, image.row_bytes(), padded.row(y));
        if (padded.width > image.width) std::copy_n(row + image.row_bytes() - 3, 3, padded.at(image.width, y));
    }
}

}  // namespace

class VideoWriter::Impl {
public:
    Impl(const std::string& path, int width, int height, const VideoWriterOptions& options);
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;
    ~Impl();

    void copy_audio_from(const std::string& path, double start);
    void write(const Image& image);
    void finish();

    int64_t frames = 0;
    std::vector<std::string> notes;

private:
    struct CloseOutput {
        void operator()(AVFormatContext* context) const {
            avio_closep(&context->pb);
            avformat_free_context(context);
        }
    };

    void open_encoder(const VideoWriterOptions& options);
    void open_output();
    void prepare_colours();
    void start();
    void encode(const AVFrame* frame);
    double seconds_written() const { return ffmpeg::seconds(frames, encoder_->time_base); }
    void check(int result, const char* action) const {
        if (result < 0) fail(path_, ": ", action, " failed (", ffmpeg::reason(result), ")");
    }

    std::string path_;
    std::string temporary_;  // in the same folder, so that the rename stays inside one file system
    int width_, height_;     // of the images
    ffmpeg::CodecPtr encoder_;
    std::unique_ptr<AVFormatContext, CloseOutput> output_;
    AVStream* stream_ = nullptr;  // owned by output_
    std::optional<AudioCopy> audio_;
    ffmpeg::SwsPtr colours_;
    ffmpeg::FramePtr frame_ = ffmpeg::make_frame();
    ffmpeg::PacketPtr packet_ = ffmpeg::make_packet();
    Image padded_;  // of an odd size made even
    bool started_ = false;
    bool finished_ = false;
};

VideoWriter::Impl::Impl(const std::string& path, int width, int height, const VideoWriterOptions& options)
    : path_(path), temporary_(path + ".part" + std::to_string(::getpid())), width_(width), height_(height) {
    check_arguments(path, width, height, options);
    ffmpeg::silence_log();
    open_encoder(options);
    prepare_colours();
    open_output();
}

VideoWriter::Impl::~Impl() {
    if (finished_ || !output_) return;
    output_.reset();
    std::error_code error;
    fs::remove(temporary_, error);
}

void VideoWriter::Impl::open_encoder(const VideoWriterOptions& options) {
    const AVCodec* codec = avcodec_find_encoder_by_name("libx264");
    const bool h264 = codec != nullptr;
    if (!h264) codec = avcodec_find_encoder(AV_CODEC_ID_MPEG4);
    if (codec == nullptr) fail(path_, ": the FFmpeg on this system can encode neither H.264 nor MPEG-4 video");
    encoder_.reset(avcodec_alloc_context3(codec));
    if (!encoder_) fail("out of memory while preparing a video encoder");
    encoder_->width = even(width_);
    encoder_->height = even(height_);
    encoder_->pix_fmt = AV_PIX_FMT_YUV420P;
    encoder_->time_base = {options.fps.denominator, options.fps.numerator};
    encoder_->framerate = {options.fps.numerator, options.fps.denominator};
    const bool hd = height_ >= kRowsOfHd;
    encoder_->colorspace = hd ? AVCOL_SPC_BT709 : AVCOL_SPC_SMPTE170M;
    encoder_->color_primaries = hd ? AVCOL_PRI_BT709 : AVCOL_PRI_SMPTE170M;
    encoder_->color_trc = hd ? AVCOL_TRC_BT709 : AVCOL_TRC_SMPTE170M;
    encoder_->color_range = AVCOL_RANGE_MPEG;
    encoder_->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;  // MP4 keeps the codec's header apart from the packets
    if (options.key_interval > 0) encoder_->gop_size = options.key_interval;
    AVDictionary* settings = nullptr;
    if (h264) {
        av_dict_set(&settings, "preset", "fast", 0);
        av_dict_set_int(&settings, "crf", options.crf, 0);
        // x264's macroblock tree reads memory that it never wrote (version 164 with AVX-512), so that with it the same
        // frames now and then give another file.
        av_dict_set_int(&settings, "mbtree", 0, 0);
    } else {
        encoder_->flags |= AV_CODEC_FLAG_QSCALE;
        encoder_->global_quality = FF_QP2LAMBDA * std::clamp(options.crf / 6, 1, 31);
        encoder_->max_b_frames = 2;
    }
    encoder_->thread_count = 0;  // as many as the encoder finds useful; the result does not depend on it
    const int opened = avcodec_open2(encoder_.get(), codec, &settings);
    av_dict_free(&settings);
    if (opened < 0)
        fail(path_, ": the ", codec->name, " encoder refuses ", encoder_->width, " x ", encoder_->height, " pixels at ",
             options.fps.value(), " frames a second (", ffmpeg::reason(opened), ")");
}

void VideoWriter::Impl::open_output() {
    AVFormatContext* context = nullptr;
    const std::string url = "file:" + temporary_;
    if (avformat_alloc_output_context2(&context, nullptr, "mp4", url.c_str()) < 0)
        fail(path_, ": the FFmpeg on this system cannot write MP4 files");
    output_.reset(context);
    output_->strict_std_compliance = FF_COMPLIANCE_EXPERIMENTAL;  // for sound that is new in MP4 files
    stream_ = avformat_new_stream(context, nullptr);
    if (stream_ == nullptr || avcodec_parameters_from_context(stream_->codecpar, encoder_.get()) < 0)
        fail("out of memory while preparing a video");
    stream_->time_base = encoder_->time_base;
    stream_->avg_frame_rate = encoder_->framerate;
    check(avio_open(&output_->pb, url.c_str(), AVIO_FLAG_WRITE), "creating the file");
}

// From the images to encoder_'s pixels, by the inverse of what the reader does.
void VideoWriter::Impl::prepare_colours() {
    constexpr int kFlags = SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INP | SWS_FULL_CHR_H_INT | SWS_BITEXACT;
    constexpr int kOne = 1 << 16;  // contrast and saturation stay as they are
    const int width = encoder_->width, height = encoder_->height;
    colours_.reset(sws_getContext(width, height, AV_PIX_FMT_RGB24, width, height, encoder_->pix_fmt, kFlags, nullptr,
                                  nullptr, nullptr));
    if (!colours_) fail(path_, ": RGB frames of ", width, " x ", height, " pixels cannot be converted for a video");
    sws_setColorspaceDetails(colours_.get(), sws_getCoefficients(SWS_CS_DEFAULT), 1,
                             sws_getCoefficients(encoder_->colorspace), 0, 0, kOne, kOne);
    frame_->format = encoder_->pix_fmt;
    frame_->width = width;
    frame_->height = height;
    if (av_frame_get_buffer(frame_.get(), 0) < 0) fail("out of memory while preparing a video frame");
    if (width != width_ || height != height_) padded_ = Image(width, height, 3);
}

void VideoWriter::Impl::copy_audio_from(const std::string& path, double start) {
    if (started_ || audio_) fail(path_, ": sound can be added once, before the first frame");
    audio_.emplace(path, start, output_.get(), notes);
}

void VideoWriter::Impl::start() {
    AVDictionary* settings = nullptr;
    av_dict_set(&settings, "movflags", "+faststart", 0);  // the index first, so that players need not read to the end
    const int written = avformat_write_header(output_.get(), &settings);
    av_dict_free(&settings);
    check(written, "writing the header");
    started_ = true;
}

void VideoWriter::Impl::write(const Image& image) {
    check_image(image);
    if (finished_) fail(path_, ": a frame came after the video was finished");
    if (image.width != width_ || image.height != height_ || image.channels != 3)
        fail(path_, ": expected RGB frames of ", width_, " x ", height_, " pixels, found ", image.width, " x ",
             image.height, " with ", image.channels, " channels");
    if (!started_) start();
    if (padded_.width > 0) pad(image, padded_);
    const Image& source = padded_.width > 0 ? padded_ : image;
    check(av_frame_make_writable(frame_.get()), "preparing a frame");
    const uint8_t* const planes[] = {source.pixels.data()};
    const int strides[] = {static_cast<int>(source.row_bytes())};
    sws_scale(colours_.get(), planes, strides, 0, source.height, frame_->data, frame_->linesize);
    frame_->pts = frames;
    encode(frame_.get());
    ++frames;
}

// Without a frame: what the encoder still holds.
void VideoWriter::Impl::encode(const AVFrame* frame) {
    check(avcodec_send_frame(encoder_.get(), frame), "encoding a frame");
    while (true) {
        const int received = avcodec_receive_packet(encoder_.get(), packet_.get());
        if (received == AVERROR(EAGAIN) || received == AVERROR_EOF) return;
        check(received, "encoding a frame");
        const double time = ffmpeg::seconds(packet_->dts, encoder_->time_base);
        packet_->stream_index = stream_->index;
        packet_->duration = 1;
        av_packet_rescale_ts(packet_.get(), encoder_->time_base, stream_->time_base);
        if (audio_) check(audio_->write_until(time, output_.get()), "writing sound");
        check(av_interleaved_write_frame(output_.get(), packet_.get()), "writing a frame");
    }
}

void VideoWriter::Impl::finish() {
    if (finished_) fail(path_, ": the video is finished already");
    if (frames == 0) fail(path_, ": a video needs at least one frame, found none");
    encode(nullptr);
    if (audio_) check(audio_->write_until(seconds_written(), output_.get()), "writing sound");
    check(av_write_trailer(output_.get()), "completing the file");
    check(avio_closep(&output_->pb), "completing the file");
    std::error_code error;
    fs::rename(temporary_, path_, error);
    if (error) fail(path_, ": the written file cannot be given its name (", error.message(), ")");
    finished_ = true;
}

VideoWriter::VideoWriter(const std::string& path, int width, int height, const VideoWriterOptions& options)
    : impl_(std::make_unique<Impl>(path, width, height, options)) {}
VideoWriter::VideoWriter(VideoWriter&&) noexcept = default;
VideoWriter& VideoWriter::operator=(VideoWriter&&) noexcept = default;
VideoWriter::~VideoWriter() = default;

void VideoWriter::copy_audio_from(const std::string& path, double start) { impl_->copy_audio_from(path, start); }
void VideoWriter::write(const Image& image) { impl_->write(image); }
void VideoWriter::finish() { impl_->finish(); }
int64_t VideoWriter::frames_written() const { return impl_->frames; }
const std::vector<std::string>& VideoWriter::notes() const { return impl_->notes; }

}  // namespace sam3
