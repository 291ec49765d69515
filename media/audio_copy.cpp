#include "media/audio_copy.h"

#include "util/error.h"

#include <cmath>

namespace sam3 {

AudioCopy::AudioCopy(const std::string& path, double start, AVFormatContext* output, std::vector<std::string>& notes)
    : input_(ffmpeg::open_input(path, "a file with sound")) {
    const int best = av_find_best_stream(input_.get(), AVMEDIA_TYPE_AUDIO, -1, -1, nullptr, 0);
    if (best < 0) {
        notes.push_back(path + " has no sound, so the result has none");
        return;
    }
    const AVStream* audio = input_->streams[best];
    if (avformat_query_codec(output->oformat, audio->codecpar->codec_id, FF_COMPLIANCE_EXPERIMENTAL) <= 0) {
        notes.push_back(str("the sound of ", path, " is ", avcodec_get_name(audio->codecpar->codec_id),
                            ", which an MP4 file cannot hold, so the result has none"));
        return;
    }
    const int video = av_find_best_stream(input_.get(), AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
    const AVStream* clock = video >= 0 ? input_->streams[video] : audio;
    const double origin =
        clock->start_time == AV_NOPTS_VALUE ? 0.0 : ffmpeg::seconds(clock->start_time, clock->time_base);
    const double ticks = (origin + start) / av_q2d(audio->time_base);
    if (!(std::abs(ticks) < static_cast<double>(ffmpeg::kMostTicks)))
        fail(path, ": expected a second inside the file from which to take sound, found ", start);
    start_ = std::llround(ticks);
    AVStream* added = avformat_new_stream(output, nullptr);
    if (added == nullptr || avcodec_parameters_copy(added->codecpar, audio->codecpar) < 0)
        fail("out of memory while preparing the sound of a video");
    added->codecpar->codec_tag = 0;  // each container has its own
    added->time_base = audio->time_base;
    for (unsigned i = 0; i < input_->nb_streams; ++i)
        if (static_cast<int>(i) != best) input_->streams[i]->discard = AVDISCARD_ALL;
    from_ = audio;
    to_ = added;
    // To the packet before the start. A file that cannot seek is read from its beginning and cut all the same.
    if (start > 0) avformat_seek_file(input_.get(), best, INT64_MIN, start_ - 1, start_ - 1, 0);
}

// The next packet of the sound into packet_; false at the end, which may be an early one.
bool AudioCopy::next() {
    while (!waits_) {
        av_packet_unref(packet_.get());
        if (av_read_frame(input_.get(), packet_.get()) < 0) return false;
        // The packet that ends at the start is kept: decoders need one to warm up, and the MP4 says that it is not
        // heard.
        waits_ = packet_->stream_index == from_->index && ffmpeg::plausible(packet_->pts) &&
                 ffmpeg::plausible(packet_->duration) && packet_->pts + packet_->duration >= start_;
    }
    return true;
}

int AudioCopy::write_until(double end, AVFormatContext* output) {
    while (from_ != nullptr && next() && ffmpeg::seconds(packet_->pts - start_, from_->time_base) < end) {
        packet_->pts -= start_;
        packet_->dts = ffmpeg::plausible(packet_->dts) ? packet_->dts - start_ : packet_->pts;
        packet_->stream_index = to_->index;
        packet_->pos = -1;
        av_packet_rescale_ts(packet_.get(), from_->time_base, to_->time_base);
        waits_ = false;
        const int written = av_interleaved_write_frame(output, packet_.get());
        if (written < 0) return written;
    }
    return 0;
}

}  // namespace sam3
