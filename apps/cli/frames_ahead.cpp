#include "frames_ahead.h"

namespace sam3::cli {
namespace {

constexpr size_t kMostFrames = 8;
constexpr size_t kMostBytes = size_t{256} << 20;

}  // namespace

FramesAhead::FramesAhead(FrameSource& frames, std::vector<int64_t> numbers)
    : frames_(frames), numbers_(std::move(numbers)), queue_(kMostFrames, kMostBytes), thread_([this] { work(); }) {}

FramesAhead::~FramesAhead() {
    queue_.stop();
    thread_.join();
}

void FramesAhead::work() {
    queue_.end_at(numbers_.size());
    for (size_t i = 0; i < numbers_.size(); ++i) {
        Frame frame = read(numbers_[i]);
        const bool last = !frame.image;
        const size_t bytes = frame.image ? frame.image->pixels.size() : 0;
        if (!queue_.put(i, std::move(frame), bytes) || last) return;
    }
}

FramesAhead::Frame FramesAhead::read(int64_t number) {
    try {
        if (number != position_) frames_.seek(number);
        Image image;
        if (!frames_.read(image)) return {};
        position_ = number + 1;
        return {std::move(image), nullptr};
    } catch (...) {
        return {std::nullopt, std::current_exception()};
    }
}

std::optional<Image> FramesAhead::next() {
    std::optional<Frame> frame = queue_.take();
    if (!frame) return std::nullopt;
    if (frame->failure) std::rethrow_exception(frame->failure);
    return std::move(frame->image);
}

}  // namespace sam3::cli
