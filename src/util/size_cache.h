#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace sam3 {

// Keeps what depends on a height and a width only, such as position tables: made once, shared by all threads.
// Holds at most `kMost` sizes, so that a stream of odd sizes cannot grow it without bound.
template <typename Value>
class SizeCache {
public:
    std::shared_ptr<const Value> get(int64_t height, int64_t width, const std::function<Value()>& make) const {
        constexpr size_t kMost = 16;
        const std::lock_guard lock(state_->mutex);
        auto& entries = state_->entries;
        const auto found = entries.find({height, width});
        if (found != entries.end()) return found->second;
        if (entries.size() >= kMost) entries.clear();
        return entries[{height, width}] = std::make_shared<const Value>(make());
    }

private:
    struct State {
        std::mutex mutex;
        std::map<std::pair<int64_t, int64_t>, std::shared_ptr<const Value>> entries;
    };
    std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace sam3
