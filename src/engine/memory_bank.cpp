#include "engine/memory_bank.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace sam3 {

namespace {

constexpr float kGoodQuality = 0.01F;              // a memory above it is worth recalling (Meta's tracker)
constexpr size_t kMostConditioningPointers = 256;  // of automatic conditioning frames whose memory is gone

size_t bytes_of(const Tensor& tensor) {
    return tensor ? static_cast<size_t>(tensor.numel()) * size_of(tensor.dtype()) : 0;
}

// Frames that pointers reach: a short video is measured by its own length.
int pointer_reach(const MemoryConfig& config, int64_t total_frames) {
    return total_frames < 0 ? config.pointers : static_cast<int>(std::min<int64_t>(total_frames, config.pointers));
}

float normalized(int64_t distance, int reach) {
    return static_cast<float>(distance) / static_cast<float>(std::max(1, reach - 1));
}

}  // namespace

const MemoryBank::Entry* MemoryBank::find(int64_t frame) const {
    const auto found = entries_.find(frame);
    return found == entries_.end() ? nullptr : &found->second;
}

MemoryBank::Entry* MemoryBank::find(int64_t frame) {
    const auto found = entries_.find(frame);
    return found == entries_.end() ? nullptr : &found->second;
}

bool MemoryBank::can_track() const {
    return std::any_of(entries_.begin(), entries_.end(),
                       [](const auto& item) { return item.second.conditioning && item.second.tokens; });
}

// The closest before the frame, the closest from it on, then whichever are closest; the earlier of two as close.
MemoryBank::FrameSet MemoryBank::closest_conditioning(int64_t frame, int most) const {
    std::vector<int64_t> all;
    for (const auto& [t, entry] : entries_)
        if (entry.conditioning && entry.tokens) all.push_back(t);
    FrameSet chosen;
    if (most < 0 || all.size() <= static_cast<size_t>(most)) {
        chosen.insert(all.begin(), all.end());
        return chosen;
    }
    const auto after = std::lower_bound(all.begin(), all.end(), frame);
    if (after != all.begin()) chosen.insert(*std::prev(after));
    if (after != all.end()) chosen.insert(*after);
    std::stable_sort(all.begin(), all.end(),
                     [frame](int64_t a, int64_t b) { return std::abs(a - frame) < std::abs(b - frame); });
    for (auto t = all.begin(); t != all.end() && chosen.size() < static_cast<size_t>(most); ++t) chosen.insert(*t);
    return chosen;
}

// The last good frames before a frame (after it in reverse), nearest first.
std::vector<int64_t> MemoryBank::good_frames(int64_t frame, bool reverse, int most) const {
    std::vector<int64_t> good;
    const auto consider = [&](const Entries::value_type& item) {
        if (!item.second.conditioning && item.second.quality > kGoodQuality) good.push_back(item.first);
    };
    const auto enough = [&] { return good.size() >= static_cast<size_t>(std::max(0, most)); };
    if (reverse)
        for (auto it = entries_.upper_bound(frame); it != entries_.end() && !enough(); ++it) consider(*it);
    else
        for (auto it = entries_.lower_bound(frame); it != entries_.begin() && !enough();) consider(*--it);
    return good;
}

// What lies in the frames just before this one, whatever its quality. A conditioning frame that was not selected counts
// as an ordinary one, but with all_pointers its pointer is recalled already.
void MemoryBank::recall_in_window(const MemoryConfig& config, bool all_pointers, const Moment& moment,
                                  const FrameSet& selected, int reach, ObjectMemory& memory) const {
    for (int64_t age = 1; age < std::max(config.frames, reach); ++age) {
        const int64_t t = moment.reverse ? moment.frame + age : moment.frame - age;
        const Entry* entry = find(t);
        if (entry == nullptr || selected.count(t) != 0) continue;
        if (age < config.frames && entry->tokens) memory.spatial.push_back({entry->tokens, static_cast<int>(age)});
        if (age < reach && !(entry->conditioning && all_pointers))
            memory.pointers.push_back({entry->pointer, normalized(age, reach)});
    }
}

// The last frames with a good mask, and in any case the one just before; ages count those frames, not time. Frame 0 is
// never among them, and the oldest has no pointer, as in Meta's tracker.
void MemoryBank::recall_the_good(const MemoryConfig& config, const Moment& moment, const FrameSet& selected, int reach,
                                 ObjectMemory& memory) const {
    std::vector<int64_t> frames = good_frames(moment.frame, moment.reverse, reach - 1);
    if (!moment.reverse) frames.erase(std::remove(frames.begin(), frames.end(), int64_t{0}), frames.end());
    const int64_t previous = moment.reverse ? moment.frame + 1 : moment.frame - 1;
    if (frames.empty() || frames.front() != previous) frames.insert(frames.begin(), previous);
    for (size_t i = 0; i < frames.size(); ++i) {
        const Entry* entry = find(frames[i]);
        if (entry == nullptr || selected.count(frames[i]) != 0) continue;
        const int age = static_cast<int>(i) + 1;
        if (age < config.frames && entry->tokens) memory.spatial.push_back({entry->tokens, age});
        if (age < reach && i + 1 < frames.size()) memory.pointers.push_back({entry->pointer, normalized(age, reach)});
    }
}

ObjectMemory MemoryBank::recall(const MemoryConfig& config, const Behaviour& behaviour, const Moment& moment) const {
    ObjectMemory memory;
    const int reach = pointer_reach(config, moment.total_frames);
    const FrameSet selected = closest_conditioning(moment.frame, config.conditioning_frames);
    for (const int64_t t : selected) memory.spatial.push_back({entries_.at(t).tokens, 0});
    for (const auto& [t, entry] : entries_) {
        const int64_t distance = moment.reverse ? t - moment.frame : moment.frame - t;
        const bool wanted = behaviour.all_conditioning_pointers ? entry.conditioning : selected.count(t) != 0;
        if (wanted && distance >= 0) memory.pointers.push_back({entry.pointer, normalized(distance, reach)});
    }
    if (behaviour.select_memories)
        recall_the_good(config, moment, selected, reach, memory);
    else
        recall_in_window(config, behaviour.all_conditioning_pointers, moment, selected, reach, memory);
    return memory;
}

void MemoryBank::prune(const MemoryConfig& config, const Behaviour& behaviour, const BankLimits& limits, int64_t frame,
                       int64_t start) {
    const auto within = [&](int64_t t, int64_t reach) {
        return std::abs(t - frame) <= reach || std::abs(t - start) <= reach;
    };
    const int64_t pointer_limit = std::max(limits.history, config.pointers);
    const int most = config.conditioning_frames < 0 ? limits.history : config.conditioning_frames;

    FrameSet memories;  // of which the spatial memory stays
    FrameSet pointers;  // of which at least the pointer stays
    int first = 0;
    for (const auto& [t, entry] : entries_) {
        const bool given = entry.conditioning && (entry.by_person || first++ < most);
        if (given || within(t, limits.history)) memories.insert(t);
        if (within(t, pointer_limit)) pointers.insert(t);
    }
    for (const int64_t anchor : {frame, start}) {
        FrameSet before;
        FrameSet after;
        for (const auto& [t, entry] : entries_)
            if (entry.conditioning && entry.tokens) (t < anchor ? before : after).insert(t);
        while (before.size() > static_cast<size_t>(most)) before.erase(before.begin());
        while (after.size() > static_cast<size_t>(most)) after.erase(std::prev(after.end()));
        memories.merge(before);
        memories.merge(after);
        if (!behaviour.select_memories) continue;
        for (const bool reverse : {false, true}) {
            const std::vector<int64_t> good = good_frames(anchor, reverse, config.pointers);
            memories.insert(good.begin(), good.begin() + std::min<std::ptrdiff_t>(
                                                             static_cast<std::ptrdiff_t>(good.size()), config.frames));
            pointers.insert(good.begin(), good.end());
        }
    }
    size_t extra = 0;  // counted from the latest back
    for (auto item = entries_.rbegin(); item != entries_.rend() && behaviour.all_conditioning_pointers; ++item)
        if (item->second.conditioning && memories.count(item->first) == 0 && extra++ < kMostConditioningPointers)
            pointers.insert(item->first);

    for (auto item = entries_.begin(); item != entries_.end();) {
        const auto& t = item->first;
        Entry& entry = item->second;
        if (memories.count(t) == 0) {
            entry.tokens = {};
            entry.masks = {};
        }
        if (!entry.conditioning && t != frame) entry.masks = {};
        item = memories.count(t) == 0 && pointers.count(t) == 0 ? entries_.erase(item) : std::next(item);
    }
}

size_t MemoryBank::bytes() const {
    size_t total = 0;
    for (const auto& [t, entry] : entries_)
        total += bytes_of(entry.tokens) + bytes_of(entry.pointer) + bytes_of(entry.masks);
    return total;
}

void FrameIntervals::add(int64_t first, int64_t last) {
    auto next = intervals_.upper_bound(first);
    if (next != intervals_.begin() && std::prev(next)->second >= first - 1) --next;
    while (next != intervals_.end() && next->first <= last + 1) {
        first = std::min(first, next->first);
        last = std::max(last, next->second);
        next = intervals_.erase(next);
    }
    intervals_[first] = last;
}

bool FrameIntervals::contains(int64_t frame) const {
    const auto after = intervals_.upper_bound(frame);
    return after != intervals_.begin() && std::prev(after)->second >= frame;
}

}  // namespace sam3
