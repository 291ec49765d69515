#include "runtime/cpu/memory_pool.h"

#include "util/error.h"

#include <algorithm>
#include <iterator>
#include <new>

#if defined(__unix__) || defined(__APPLE__)
#define SAM3_HAS_MMAP 1
#include <sys/mman.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, bytes) (static_cast<void>(data), static_cast<void>(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(data, bytes) (static_cast<void>(data), static_cast<void>(bytes))
#endif

namespace sam3::cpu {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kChunk = size_t{64} << 20;
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kRedZone = MemoryPool::kAlignment;  // poisoned gap that reveals writes past the end
#else
constexpr size_t kRedZone = 0;
#endif

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Aligned to huge pages, which the system is asked for: weights and feature maps are read end to end. Null on failure.
char* map_chunk(size_t bytes) {
#if defined(SAM3_HAS_MMAP)
    void* mapped = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    char* start = static_cast<char*>(mapped);
    const size_t head = round_up(reinterpret_cast<size_t>(start), kHugePage) - reinterpret_cast<size_t>(start);
    if (head > 0) munmap(start, head);
    if (head < kHugePage) munmap(start + head + bytes, kHugePage - head);
#if defined(MADV_HUGEPAGE)
    madvise(start + head, bytes, MADV_HUGEPAGE);
#endif
    return start + head;
#else
    return static_cast<char*>(::operator new (bytes, std::align_val_t{MemoryPool::kAlignment}, std::nothrow));
#endif
}

void unmap_chunk(char* data, size_t bytes) {
    ASAN_UNPOISON_MEMORY_REGION(data, bytes);
#if defined(SAM3_HAS_MMAP)
    munmap(data, bytes);
#else
    ::operator delete (data, std::align_val_t{MemoryPool::kAlignment});
#endif
}

double mebibytes(size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

MemoryPool::~MemoryPool() {
    // Every buffer holds the pool, so all blocks are free and each chunk is one block again.
    for (const auto& [data, block] : blocks_) unmap_chunk(data, block.bytes);
}

void MemoryPool::insert_free(char* data, size_t bytes, const char* chunk) {
    blocks_[data] = Block{bytes, chunk, true};
    free_.emplace(bytes, data);
}

void MemoryPool::add_chunk(size_t bytes) {
    constexpr size_t kLargest = size_t{1} << 56;  // keeps the rounding below from wrapping
    const size_t size = bytes > kChunk / 2 ? round_up(std::min(bytes, kLargest), kHugePage) : kChunk;
    char* data = bytes > kLargest ? nullptr : map_chunk(size);
    if (data == nullptr)
        fail("out of memory: wanted ", mebibytes(bytes), " MiB more, ", mebibytes(stats_.in_use),
             " MiB are in use and ", mebibytes(stats_.reserved), " MiB reserved: use a smaller model, image or batch");
    stats_.reserved += size;
    ASAN_POISON_MEMORY_REGION(data, size);
    insert_free(data, size, data);
}

void* MemoryPool::allocate(size_t bytes) {
    const std::lock_guard lock(mutex_);
    constexpr size_t kLargest = size_t{1} << 60;
    const size_t size = round_up(std::clamp<size_t>(bytes, 1, kLargest) + kRedZone, kAlignment);
    auto found = free_.lower_bound({size, nullptr});
    if (found == free_.end()) {
        add_chunk(size);
        found = free_.lower_bound({size, nullptr});
    }
    char* data = found->second;
    free_.erase(found);
    Block& block = blocks_.at(data);
    if (block.bytes > size) insert_free(data + size, block.bytes - size, block.chunk);
    block.bytes = size;
    block.free = false;
    stats_.in_use += size;
    stats_.peak = std::max(stats_.peak, stats_.in_use);
    ASAN_UNPOISON_MEMORY_REGION(data, bytes);
    return data;
}

void MemoryPool::release(void* data) {
    const std::lock_guard lock(mutex_);
    auto block = blocks_.find(static_cast<char*>(data));
    ASAN_POISON_MEMORY_REGION(data, block->second.bytes);
    stats_.in_use -= block->second.bytes;
    block->second.free = true;

    // Joins a block with the one after it, both free and neither in free_ afterwards.
    const auto join = [this](Blocks::iterator first, Blocks::iterator second) {
        free_.erase({first->second.bytes, first->first});
        free_.erase({second->second.bytes, second->first});
        first->second.bytes += second->second.bytes;
        blocks_.erase(second);
    };
    const auto joins = [&](Blocks::iterator other) {
        return other->second.free && other->second.chunk == block->second.chunk;
    };
    const auto next = std::next(block);
    if (next != blocks_.end() && joins(next)) join(block, next);
    if (block != blocks_.begin() && joins(std::prev(block))) {
        const auto previous = std::prev(block);
        join(previous, block);
        block = previous;
    }
    free_.emplace(block->second.bytes, block->first);
}

void MemoryPool::trim() {
    const std::lock_guard lock(mutex_);
    for (auto block = blocks_.begin(); block != blocks_.end();) {
        const auto next = std::next(block);
        const bool ends_chunk = next == blocks_.end() || next->second.chunk != block->second.chunk;
        if (block->second.free && block->first == block->second.chunk && ends_chunk) {
            stats_.reserved -= block->second.bytes;
            free_.erase({block->second.bytes, block->first});
            unmap_chunk(block->first, block->second.bytes);
            blocks_.erase(block);
        }
        block = next;
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
