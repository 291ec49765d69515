#include "media/codecs.h"
#include "media/exif.h"
#include "media/frame_index.h"
#include "media/frame_sources.h"
#include "media/image_io.h"
#include "media/rgb_converter.h"
#include "util/error.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace sam3 {
namespace {

// The EXIF orientation that turns the stored pixels as the stream's display matrix does.
int orientation_of(const AVStream* stream) {
#if LIBAVFORMAT_VERSION_INT >= AV_VERSION_INT(60, 15, 100)
    const AVCodecParameters* codec = stream->codecpar;
    const AVPacketSideData* side =
        av_packet_side_data_get(codec->coded_side_data, codec->nb_coded_side_data, AV_PKT_DATA_DISPLAYMATRIX);
    const uint8_t* data = side != nullptr ? side->data : nullptr;
    const size_t bytes = side != nullptr ? side->size : 0;
#else
    size_t bytes = 0;
    const uint8_t* data = av_stream_get_side_data(stream, AV_PKT_DATA_DISPLAYMATRIX, &bytes);
#endif
    int32_t m[9];  // a b u, c d v, x y w: a pixel (p, q) is shown at (a p + c q, b p + d q)
    if (data == nullptr || bytes < sizeof m) return 1;
    std::copy_n(data, sizeof m, reinterpret_cast<uint8_t*>(m));
    const int64_t a = m[0], b = m[1], c = m[3], d = m[4];
    if (std::abs(a) + std::abs(d) >= std::abs(b) + std::abs(c)) return a >= 0 ? (d >= 0 ? 1 : 4) : (d >= 0 ? 2 : 3);
    return b >= 0 ? (c >= 0 ? 5 : 6) : (c >= 0 ? 8 : 7);
}

class VideoFile : public FrameSource {
public:
    explicit VideoFile(const std::string& path);

    const VideoInfo& info() const override { return info_; }
    bool read(Image& image) override;
    void seek(int64_t frame) override;
    double time_of(int64_t frame) const override;

private:
    void open();
    void describe();
    void start_again();
    bool go_to_key(int64_t key);
    bool read_packet();
    bool receive();
    bool decode();
    void mark_lost(int64_t before, int64_t after);
    bool decode_until(int64_t frame);
    bool reach(int64_t frame);
    void give(Image& image);
    bool at_end();
    [[noreturn]] void lost(int64_t frame);

    std::string path_;
    VideoInfo info_;
    ffmpeg::InputPtr input_;
    ffmpeg::CodecPtr decoder_;
    AVStream* stream_ = nullptr;  // owned by input_
    FrameIndex index_;
    int orientation_ = 1;

    ffmpeg::PacketPtr packet_ = ffmpeg::make_packet();
    ffmpeg::FramePtr frame_ = ffmpeg::make_frame();
    bool packet_waits_ = false;  // packet_ was read but not yet decoded
    bool drained_ = false;       // the decoder has nothing more to give
    int64_t packets_ = 0;        // number of the packet that is decoded next
    int64_t decoded_ = -1;       // number of the frame in frame_, which is the latest one; -1 for none
    int64_t counted_ = 0;        // frames that came out since the start; their numbers when the index is not usable
    int64_t next_ = 0;           // number of the frame that read() gives
    int problem_ = 0;            // FFmpeg's latest error
    bool told_ = false;          // the early end was reported
    std::vector<bool> lost_;     // frames that the decoder did not give

    RgbConverter converter_;
    Image stored_;  // before it is turned
};

VideoFile::VideoFile(const std::string& path) : path_(path) {
    open();
    index_ = FrameIndex(input_.get(), stream_);
    start_again();
    if (!receive())
        fail(path_, ": no frame of this ", info_.codec, " video can be decoded (", ffmpeg::reason(problem_),
             "); the file is damaged, copy it again");
    index_.start_at(frame_->best_effort_timestamp);
    decoded_ = 0;
    counted_ = 1;
    lost_.resize(index_.usable() ? static_cast<size_t>(index_.count()) : 0);
    describe();
}

void VideoFile::open() {
    decoder_.reset();
    input_ = ffmpeg::open_input(path_, "a video");
    const int best = av_find_best_stream(input_.get(), AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
    info_.has_audio = av_find_best_stream(input_.get(), AVMEDIA_TYPE_AUDIO, -1, -1, nullptr, 0) >= 0;
    if (best < 0 || (input_->streams[best]->disposition & AV_DISPOSITION_ATTACHED_PIC) != 0)
        fail(path_, ": expected a video, found a file of the kind ", input_->iformat->long_name, " with ",
             info_.has_audio ? "sound but no pictures" : "no pictures; it may be truncated, copy it again");
    stream_ = input_->streams[best];
    info_.codec = avcodec_get_name(stream_->codecpar->codec_id);
    for (unsigned i = 0; i < input_->nb_streams; ++i)
        if (static_cast<int>(i) != best) input_->streams[i]->discard = AVDISCARD_ALL;
    decoder_ = ffmpeg::open_decoder(stream_, path_);
}

// Completes what is known about the video; frame_ holds its first frame.
void VideoFile::describe() {
    check_image_size(static_cast<uint64_t>(frame_->width), static_cast<uint64_t>(frame_->height), path_,
                     kMaxImagePixels);
    orientation_ = orientation_of(stream_);
    info_.width = orientation_ >= 5 ? frame_->height : frame_->width;
    info_.height = orientation_ >= 5 ? frame_->width : frame_->height;
    const AVRational rate = av_guess_frame_rate(input_.get(), stream_, nullptr);
    info_.fps = rate.num > 0 && rate.den > 0 ? Fraction{rate.num, rate.den} : Fraction{25, 1};
    if (index_.usable()) {
        info_.frame_count = index_.count();
        const double length = ffmpeg::seconds(index_.end_pts() - index_.pts_of(0), stream_->time_base);
        info_.duration = std::max(length, time_of(info_.frame_count - 1));
    } else if (stream_->duration > 0) {
        info_.duration = ffmpeg::seconds(stream_->duration, stream_->time_base);
    }
}

double VideoFile::time_of(int64_t frame) const {
    if (!index_.usable() || frame < 0 || frame >= index_.count()) return FrameSource::time_of(frame);
    return ffmpeg::seconds(index_.pts_of(frame) - index_.pts_of(0), stream_->time_base);
}

// To the first key frame, or to the first packet when the index is not usable.
void VideoFile::start_again() {
    if (index_.usable() && go_to_key(0)) return;
    open();
    packet_waits_ = drained_ = false;
    packets_ = 0;
    decoded_ = -1;
    counted_ = 0;
    while (index_.usable() && read_packet() && (packet_->flags & AV_PKT_FLAG_KEY) == 0) {
        av_packet_unref(packet_.get());
        packet_waits_ = false;
        ++packets_;
    }
}

// To a key frame or, where the file does not allow that, to one shortly before it; false when that fails too.
bool VideoFile::go_to_key(int64_t key) {
    constexpr int64_t kMostSteps = 4;
    const FrameIndex::Key& wanted = index_.key(key);
    for (int64_t number = key; number >= 0 && number > key - kMostSteps; --number) {
        for (const int64_t time : {index_.key(number).pts, index_.key(number).dts}) {
            if (avformat_seek_file(input_.get(), stream_->index, INT64_MIN, time, time, 0) < 0) continue;
            avcodec_flush_buffers(decoder_.get());
            av_packet_unref(packet_.get());
            packet_waits_ = drained_ = false;
            packets_ = 0;
            decoded_ = -1;
            while (read_packet() && (packet_->flags & AV_PKT_FLAG_KEY) == 0) packet_waits_ = false;
            const int64_t found = packet_waits_ ? index_.find_key(packet_->pts) : -1;
            if (found < 0 || index_.key(found).packet > wanted.packet) continue;
            packets_ = index_.key(found).packet;
            return true;
        }
    }
    return false;
}

// The stream's next packet into packet_; false at the end of the file or where it cannot be read further.
bool VideoFile::read_packet() {
    if (packets_ >= index_.packets()) return false;
    while (!packet_waits_) {
        av_packet_unref(packet_.get());
        const int result = av_read_frame(input_.get(), packet_.get());
        if (result < 0) {
            if (result != AVERROR_EOF) problem_ = result;
            return false;
        }
        packet_waits_ = packet_->stream_index == stream_->index;
    }
    return true;
}

// The decoder's next frame into frame_; false at the end.
bool VideoFile::receive() {
    while (!drained_) {
        const int received = avcodec_receive_frame(decoder_.get(), frame_.get());
        if (received >= 0) return true;
        drained_ = received == AVERROR_EOF;
        if (received != AVERROR(EAGAIN)) {
            if (!drained_) problem_ = received;
            continue;
        }
        const bool more = read_packet();
        const int sent = avcodec_send_packet(decoder_.get(), more ? packet_.get() : nullptr);
        if (sent < 0 && sent != AVERROR_EOF) problem_ = sent;
        if (more) ++packets_;
        drained_ = sent < 0 && !more;
        packet_waits_ = false;
    }
    return false;
}

// The next frame that has a number into frame_, and its number into decoded_; false at the end.
bool VideoFile::decode() {
    const int64_t before = decoded_;
    while (receive()) {
        const int64_t number = index_.usable() ? index_.find(frame_->best_effort_timestamp) : counted_;
        ++counted_;
        if (number < 0) continue;
        mark_lost(before, number);
        decoded_ = number;
        return true;
    }
    mark_lost(before, static_cast<int64_t>(lost_.size()));
    decoded_ = -1;  // the decoder emptied frame_
    return false;
}

// Frames between two that were decoded one after the other. Remembered, so that they are not tried again and again.
void VideoFile::mark_lost(int64_t before, int64_t after) {
    if (before < 0 || !index_.usable()) return;
    for (int64_t frame = before + 1; frame < after; ++frame) lost_[static_cast<size_t>(frame)] = true;
}

// Decodes forward; false when the frame does not come.
bool VideoFile::decode_until(int64_t frame) {
    while (decoded_ < frame)
        if (!decode()) return false;
    return decoded_ == frame;
}

// Brings a frame into frame_ with as little decoding as possible; false when it cannot be decoded.
bool VideoFile::reach(int64_t frame) {
    if (decoded_ == frame) return true;
    if (index_.usable() && lost_[static_cast<size_t>(frame)]) return false;
    if (!drained_ && decoded_ >= 0 && decoded_ == frame - 1) return decode_until(frame);
    if (!index_.usable()) {
        if (decoded_ > frame || drained_) start_again();
        return decode_until(frame);
    }
    const int64_t key = index_.key_before(frame);
    const bool on_the_way = !drained_ && decoded_ >= 0 && decoded_ < frame && index_.key(key).packet <= packets_;
    if (on_the_way) return decode_until(frame);
    // Streams that refresh the picture bit by bit need more than one key frame: the second and the third try.
    for (const int64_t from : {key, key - 1, int64_t{0}}) {
        if (from < 0) continue;
        if (!go_to_key(from)) start_again();
        if (decode_until(frame)) return true;
    }
    lost_[static_cast<size_t>(frame)] = true;
    return false;
}

void VideoFile::seek(int64_t frame) {
    if (frame < 0) fail(path_, ": expected a frame number from 0, found ", frame);
    next_ = frame;
}

bool VideoFile::read(Image& image) {
    if (at_end()) return false;
    const int64_t wanted = next_;
    ++next_;
    if (reach(wanted)) {
        give(image);
        return true;
    }
    if (index_.usable()) lost(wanted);
    info_.frame_count = counted_;
    next_ = wanted;
    return !at_end();
}

// Where the data ends too early, the first arrival at the end is a failure.
bool VideoFile::at_end() {
    if (info_.frame_count < 0 || next_ < info_.frame_count) return false;
    if (!index_.damage().empty() && !told_) {
        told_ = true;
        fail(path_, ": ", index_.damage(), "; the ", info_.frame_count,
             " frames before can be used, for the rest copy the file again");
    }
    return true;
}

void VideoFile::lost(int64_t frame) {
    fail(path_, ": frame ", frame, " of ", info_.frame_count, ", at ", time_of(frame), " s, cannot be decoded (",
         ffmpeg::reason(problem_), "); the file is damaged there, other frames can be used");
}

void VideoFile::give(Image& image) {
    if (orientation_ == 1) {
        converter_.convert(*frame_, info_.width, info_.height, image, path_);
        return;
    }
    const bool swapped = orientation_ >= 5;
    converter_.convert(*frame_, swapped ? info_.height : info_.width, swapped ? info_.width : info_.height, stored_,
                       path_);
    apply_orientation(stored_, orientation_, image);
}

}  // namespace

std::unique_ptr<FrameSource> open_video_file(const std::string& path) { return std::make_unique<VideoFile>(path); }

}  // namespace sam3
