#include "runtime/cpu/memory_pool.h"

#include "util/error.h"

#include <sys/mman.h>
#include <algorithm>
#include <iterator>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, bytes) (static_cast<void>(data), static_cast<void>(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(data, bytes) (static_cast<void>(data), static_cast<void>(bytes))
#endif

namespace sam3::cpu {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kStep = size_t{64} << 20;  // the least that is asked for at a time
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kRedZone = MemoryPool::kAlignment;  // poisoned gap that reveals writes past the end
#else
constexpr size_t kRedZone = 0;
#endif

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

char* map(char* wanted, size_t bytes) {
    void* mapped = mmap(wanted, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return mapped == MAP_FAILED ? nullptr : static_cast<char*>(mapped);
}

// Anywhere, aligned to huge pages.
char* map_aligned(size_t bytes) {
    char* start = map(nullptr, bytes + kHugePage);
    if (start == nullptr) return nullptr;
    const size_t head = round_up(reinterpret_cast<size_t>(start), kHugePage) - reinterpret_cast<size_t>(start);
    if (head > 0) munmap(start, head);
    if (head < kHugePage) munmap(start + head + bytes, kHugePage - head);
    return start + head;
}

// Ends at `end` where that is possible. Huge pages are asked for: weights and feature maps are read end to end. Null on
// failure.
char* map_below(char* end, size_t bytes) {
    char* start = nullptr;
    if (reinterpret_cast<size_t>(end) > bytes) {
        start = map(end - bytes, bytes);
        if (start != nullptr && start != end - bytes) {  // the place was taken
            munmap(start, bytes);
            start = nullptr;
        }
    }
    if (start == nullptr) start = map_aligned(bytes);
#if defined(MADV_HUGEPAGE)
    if (start != nullptr) madvise(start, bytes, MADV_HUGEPAGE);
#endif
    return start;
}

void unmap(char* data, size_t bytes) {
    ASAN_UNPOISON_MEMORY_REGION(data, bytes);
    munmap(data, bytes);
}

double mebibytes(size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

MemoryPool::~MemoryPool() {
    // Every buffer holds the pool, so all blocks are free and joined: they begin and end with what was mapped.
    for (const auto& [data, block] : blocks_) unmap(data, block.bytes);
}

// Joins with free neighbours.
void MemoryPool::insert_free(char* data, size_t bytes) {
    const auto after = blocks_.upper_bound(data);
    if (after != blocks_.end() && after->second.free && after->first == data + bytes) {
        free_.erase({after->second.bytes, after->first});
        bytes += after->second.bytes;
        blocks_.erase(after);
    }
    const auto at_or_after = blocks_.lower_bound(data);
    if (at_or_after != blocks_.begin()) {
        const auto before = std::prev(at_or_after);
        if (before->second.free && before->first + before->second.bytes == data) {
            free_.erase({before->second.bytes, before->first});
            data = before->first;
            bytes += before->second.bytes;
        }
    }
    blocks_[data] = Block{bytes, true};
    free_.emplace(bytes, data);
}

// Afterwards there is a free block of so many bytes.
void MemoryPool::grow(size_t bytes) {
    constexpr size_t kLargest = size_t{1} << 56;  // keeps the rounding below from wrapping
    const auto lowest = blocks_.find(edge_);
    const size_t there = lowest != blocks_.end() && lowest->second.free ? lowest->second.bytes : 0;
    const size_t missing = std::max(round_up(std::min(bytes, kLargest) - there, kHugePage), kStep);
    char* data = bytes > kLargest ? nullptr : map_below(edge_, missing);
    size_t size = missing;
    if (data != nullptr && data + size != edge_ && size < bytes) {  // elsewhere: what was free below does not help
        munmap(data, size);
        size = round_up(bytes, kHugePage);
        data = map_below(nullptr, size);
    }
    if (data == nullptr)
        fail("out of memory: wanted ", mebibytes(bytes), " MiB more, ", mebibytes(stats_.in_use),
             " MiB are in use and ", mebibytes(stats_.reserved), " MiB reserved: use a smaller model, image or batch");
    stats_.reserved += size;
    edge_ = data;
    ASAN_POISON_MEMORY_REGION(data, size);
    insert_free(data, size);
}

void* MemoryPool::allocate(size_t bytes) {
    const std::lock_guard lock(mutex_);
    constexpr size_t kLargest = size_t{1} << 60;
    const size_t size = round_up(std::clamp<size_t>(bytes, 1, kLargest) + kRedZone, kAlignment);
    auto found = free_.lower_bound({size, nullptr});
    if (found == free_.end()) {
        grow(size);
        found = free_.lower_bound({size, nullptr});
    }
    // From the block's upper end: what stays free lies where the pool grows.
    const auto [available, start] = *found;
    char* data = start + (available - size);
    free_.erase(found);
    blocks_.erase(start);
    if (available > size) insert_free(start, available - size);
    blocks_[data] = Block{size, false};
    stats_.in_use += size;
    stats_.peak = std::max(stats_.peak, stats_.in_use);
    ASAN_UNPOISON_MEMORY_REGION(data, bytes);
    return data;
}

void MemoryPool::release(void* data) {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.find(static_cast<char*>(data));
    const size_t bytes = block->second.bytes;
    ASAN_POISON_MEMORY_REGION(data, bytes);
    stats_.in_use -= bytes;
    blocks_.erase(block);
    insert_free(static_cast<char*>(data), bytes);
}

// Whole huge pages inside free blocks.
void MemoryPool::trim() {
    const std::lock_guard lock(mutex_);
    const std::set<std::pair<size_t, char*>> candidates = free_;
    for (const auto& [bytes, data] : candidates) {
        const size_t begin = reinterpret_cast<size_t>(data);
        const size_t head = round_up(begin, kHugePage) - begin;
        const size_t tail = (begin + bytes) % kHugePage;
        if (head + tail >= bytes) continue;
        free_.erase({bytes, data});
        blocks_.erase(data);
        unmap(data + head, bytes - head - tail);
        stats_.reserved -= bytes - head - tail;
        if (head > 0) insert_free(data, head);
        if (tail > 0) insert_free(data + bytes - tail, tail);
    }
}

MemoryStats MemoryPool::stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
}

void MemoryPool::reset_peak() {
    const std::lock_guard lock(mutex_);
    stats_.peak = stats_.in_use;
}

}  // namespace sam3::cpu
