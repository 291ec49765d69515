#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswscale/swscale.h>
}

#include <memory>
#include <string>

// Owners and error texts for FFmpeg's objects. Only .cpp files below media/ include this.
namespace sam3::ffmpeg {

struct Deleter {
    void operator()(AVCodecContext* context) const { avcodec_free_context(&context); }
    void operator()(AVFrame* frame) const { av_frame_free(&frame); }
    void operator()(AVPacket* packet) const { av_packet_free(&packet); }
    void operator()(SwsContext* context) const { sws_freeContext(context); }
};
using CodecPtr = std::unique_ptr<AVCodecContext, Deleter>;
using FramePtr = std::unique_ptr<AVFrame, Deleter>;
using PacketPtr = std::unique_ptr<AVPacket, Deleter>;
using SwsPtr = std::unique_ptr<SwsContext, Deleter>;

struct CloseInput {
    void operator()(AVFormatContext* context) const { avformat_close_input(&context); }
};
using InputPtr = std::unique_ptr<AVFormatContext, CloseInput>;

// Out of memory is an Error.
FramePtr make_frame();
PacketPtr make_packet();

// Sends FFmpeg's log nowhere for the whole process and forgets the messages kept so far.
void silence_log();

// What FFmpeg means by `code`, with the last error that it logged since silence_log(): for the brackets of a sentence.
// The log is one for the process, so that with several readers at work the message may be another one's.
std::string reason(int code);

// Opens a media file and reads its streams' headers. Only local files and only formats that hold films or sound: a
// playlist or a text file is refused. `expected` is what the sentence of a failure names: "a video".
InputPtr open_input(const std::string& path, const char* expected);

// A decoder for the stream, with as many threads as help; `name` is for the sentence of a failure.
CodecPtr open_decoder(const AVStream* stream, const std::string& name);

// Times beyond this come from damaged files; sums of those below do not overflow.
inline constexpr int64_t kMostTicks = int64_t{1} << 60;
inline bool plausible(int64_t ticks) { return ticks > -kMostTicks && ticks < kMostTicks; }
inline double seconds(int64_t ticks, AVRational time_base) { return static_cast<double>(ticks) * av_q2d(time_base); }

}  // namespace sam3::ffmpeg
