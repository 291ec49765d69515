#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace sam3::cli {

// Between two stages of a pipeline: numbered items go in as they are ready, from any thread, and come out by their
// numbers, to any thread. Bounded: who puts waits while the queue is full.
template <typename Item>
class OrderedQueue {
public:
    OrderedQueue(size_t most_items, size_t most_bytes) : most_items_(most_items), most_bytes_(most_bytes) {}

    // The item that comes next always fits, however large it is: else everything would wait for it. False after stop().
    bool put(size_t number, Item item, size_t bytes) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] {
            return stopped_ || number == next_ || (number < next_ + most_items_ && bytes_ + bytes <= most_bytes_);
        });
        if (stopped_) return false;
        bytes_ += bytes;
        waiting_.emplace(number, Waiting{std::move(item), bytes});
        changed_.notify_all();
        return true;
    }

    // Nothing after the last item, or after stop(). `number` becomes the item's.
    std::optional<Item> take(size_t* number = nullptr) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopped_ || next_ >= count_ || waiting_.count(next_) != 0; });
        if (stopped_ || next_ >= count_) return std::nullopt;
        if (number != nullptr) *number = next_;
        auto node = waiting_.extract(next_++);
        bytes_ -= node.mapped().bytes;
        changed_.notify_all();
        return std::move(node.mapped().item);
    }

    // There are so many items in all.
    void end_at(size_t count) {
        const std::lock_guard lock(mutex_);
        count_ = count;
        changed_.notify_all();
    }

    // Nobody waits any longer; what is in the queue is dropped.
    void stop() {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
        changed_.notify_all();
    }

private:
    struct Waiting {
        Item item;
        size_t bytes = 0;
    };
    size_t most_items_, most_bytes_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<size_t, Waiting> waiting_;
    size_t next_ = 0;
    size_t count_ = SIZE_MAX;
    size_t bytes_ = 0;
    bool stopped_ = false;
};

}  // namespace sam3::cli
