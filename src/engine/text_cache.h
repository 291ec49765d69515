#pragma once

#include "runtime/tensor.h"

#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace sam3 {

struct TextFeatures {
    Tensor tokens;      // [context, D]
    int64_t valid = 0;  // leading tokens that belong to the phrase
};

// The most recently used phrases' features. Thread-safe.
class TextCache {
public:
    explicit TextCache(size_t capacity = 256) : capacity_(capacity) {}

    std::optional<TextFeatures> find(const std::string& phrase) {
        const std::lock_guard lock(mutex_);
        const auto found = index_.find(phrase);
        if (found == index_.end()) return std::nullopt;
        entries_.splice(entries_.begin(), entries_, found->second);
        return entries_.front().second;
    }

    void insert(const std::string& phrase, const TextFeatures& features) {
        const std::lock_guard lock(mutex_);
        if (index_.count(phrase) != 0) return;
        entries_.emplace_front(phrase, features);
        index_[phrase] = entries_.begin();
        if (entries_.size() <= capacity_) return;
        index_.erase(entries_.back().first);
        entries_.pop_back();
    }

    void clear() {
        const std::lock_guard lock(mutex_);
        index_.clear();
        entries_.clear();
    }

private:
    using Entry = std::pair<std::string, TextFeatures>;
    std::mutex mutex_;
    size_t capacity_;
    std::list<Entry> entries_;
    std::unordered_map<std::string, std::list<Entry>::iterator> index_;
};

}  // namespace sam3
