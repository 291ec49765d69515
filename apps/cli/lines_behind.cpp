#include "lines_behind.h"

#include <optional>
#include <utility>

namespace sam3::cli {
namespace {

constexpr size_t kMostFrames = 8;
constexpr size_t kMostBytes = size_t{256} << 20;

size_t bytes_of(const TrackedObjects& tracked) {
    size_t bytes = 0;
    for (const TrackedObjects::Object& object : tracked.objects) bytes += object.mask.data.size();
    return bytes;
}

}  // namespace

LinesBehind::LinesBehind(TrackFiles& files)
    : files_(files), queue_(kMostFrames, kMostBytes), thread_([this] { work(); }) {}

LinesBehind::~LinesBehind() {
    queue_.end_at(given_);
    thread_.join();
}

void LinesBehind::work() {
    try {
        while (const std::optional<TrackedObjects> tracked = queue_.take()) {
            files_.add(*tracked);
            const std::lock_guard lock(mutex_);
            ++written_;
            changed_.notify_all();
        }
    } catch (...) {
        const std::lock_guard lock(mutex_);
        failure_ = std::current_exception();
        queue_.stop();
        changed_.notify_all();
    }
}

void LinesBehind::add(TrackedObjects tracked) {
    const size_t bytes = bytes_of(tracked);
    if (queue_.put(given_, std::move(tracked), bytes))
        ++given_;
    else
        wait();
}

void LinesBehind::wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failure_ || written_ == given_; });
    if (failure_) std::rethrow_exception(failure_);
}

}  // namespace sam3::cli
