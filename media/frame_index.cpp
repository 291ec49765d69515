#include "media/frame_index.h"

#include "util/error.h"

#include <algorithm>
#include <string_view>

namespace sam3 {
namespace {

// No codec moves a frame further than this between the orders of decoding and of showing; time stamps that do come from
// files that were joined and start again.
constexpr size_t kMostReordering = 64;

// VP8 stores pictures that are only referred to in packets of their own.
bool is_shown(const AVPacket& packet, AVCodecID codec) {
    if ((packet.flags & AV_PKT_FLAG_DISCARD) != 0 || packet.size == 0) return false;
    return codec != AV_CODEC_ID_VP8 || (packet.data[0] & 0x10) != 0;
}

// The two fields of an interlaced frame may come in one packet or in two.
bool packets_are_frames(const AVCodecParameters& codec) {
    return codec.field_order == AV_FIELD_UNKNOWN || codec.field_order == AV_FIELD_PROGRESSIVE;
}

// How many packets an MP4 file's header promises, or 0 for formats whose index need not be complete.
int promised_packets(const AVFormatContext* input, const AVStream* stream) {
    return std::string_view(input->iformat->name).find("mp4") == std::string_view::npos
               ? 0
               : avformat_index_get_entries_count(stream);
}

}  // namespace

FrameIndex::FrameIndex(AVFormatContext* input, const AVStream* stream) {
    const ffmpeg::PacketPtr packet = ffmpeg::make_packet();
    bool cut = false;  // the last packet is not whole
    int result = 0;
    while ((result = av_read_frame(input, packet.get())) >= 0) {
        if (packet->stream_index == stream->index) {
            add(*packet, stream->codecpar->codec_id);
            cut = (packet->flags & AV_PKT_FLAG_CORRUPT) != 0;
        }
        av_packet_unref(packet.get());
    }
    if (cut) --packets_;
    if (cut && !frames_.empty() && frames_.back().packet == packets_) frames_.pop_back();
    const int promised = promised_packets(input, stream);
    if (packets_ < promised)
        damage_ = str("its header names ", promised, " frames, but the data ends after ", packets_);
    else if (cut || result != AVERROR_EOF)
        damage_ = str("the data ends early (", ffmpeg::reason(result), ")");
    usable_ = timed_ && packets_are_frames(*stream->codecpar) && !keys_.empty() && sort();
}

void FrameIndex::add(const AVPacket& packet, AVCodecID codec) {
    const int64_t number = packets_++;
    if (!ffmpeg::plausible(packet.pts) || !ffmpeg::plausible(packet.duration)) {  // AV_NOPTS_VALUE is not either
        timed_ = false;
        return;
    }
    if ((packet.flags & AV_PKT_FLAG_KEY) != 0)
        keys_.push_back({packet.pts, packet.dts == AV_NOPTS_VALUE ? packet.pts : packet.dts, number});
    if (!is_shown(packet, codec)) return;
    frames_.push_back({packet.pts, number});
    end_pts_ = std::max(end_pts_, packet.pts + packet.duration);
}

// Brings the frames from the order of decoding into that of showing; false when their times cannot be right.
bool FrameIndex::sort() {
    std::vector<Frame> sorted = frames_;
    std::sort(sorted.begin(), sorted.end(), [](const Frame& a, const Frame& b) { return a.pts < b.pts; });
    for (size_t i = 0; i < sorted.size(); ++i) {
        if (i > 0 && sorted[i].pts == sorted[i - 1].pts) return false;
        if (i >= kMostReordering && frames_[i].pts < sorted[i - kMostReordering].pts) return false;
        if (i + kMostReordering < sorted.size() && frames_[i].pts > sorted[i + kMostReordering].pts) return false;
    }
    frames_ = std::move(sorted);
    return !frames_.empty();
}

int64_t FrameIndex::find(int64_t pts) const {
    const auto found = std::lower_bound(frames_.begin(), frames_.end(), pts,
                                        [](const Frame& frame, int64_t wanted) { return frame.pts < wanted; });
    return found != frames_.end() && found->pts == pts ? found - frames_.begin() : -1;
}

int64_t FrameIndex::find_key(int64_t pts) const {
    const auto found = std::find_if(keys_.begin(), keys_.end(), [&](const Key& each) { return each.pts == pts; });
    return found != keys_.end() ? found - keys_.begin() : -1;
}

// Frames that are shown before a key frame but decoded after it may refer to frames before it.
int64_t FrameIndex::key_before(int64_t frame) const {
    const Frame& wanted = frames_[static_cast<size_t>(frame)];
    const auto found = std::find_if(keys_.rbegin(), keys_.rend(), [&](const Key& each) {
        return each.pts <= wanted.pts && each.packet <= wanted.packet;
    });
    return std::max<int64_t>(keys_.rend() - found - 1, 0);
}

void FrameIndex::start_at(int64_t pts) {
    const int64_t first = find(pts);
    usable_ = usable_ && first >= 0;
    if (usable_) frames_.erase(frames_.begin(), frames_.begin() + first);
}

}  // namespace sam3
