#pragma once

#include "runtime/device.h"

#include <cstddef>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace sam3::cpu {

// Memory for tensors, taken from the system in large chunks and reused: a steady stream of frames asks the system for
// nothing. Best fit; a block is split on use and joined with its free neighbours when it comes back. Thread-safe.
class MemoryPool {
public:
    static constexpr size_t kAlignment = 64;

    MemoryPool() = default;
    MemoryPool(const MemoryPool&) = delete;
    MemoryPool& operator=(const MemoryPool&) = delete;
    ~MemoryPool();

    void* allocate(size_t bytes);  // 64-byte aligned, not cleared; fails with an Error when memory is exhausted
    void release(void* data);
    void trim();

    MemoryStats stats() const;
    void reset_peak();

private:
    struct Block {
        size_t bytes;
        const char* chunk;  // first byte of the chunk it lies in
        bool free;
    };
    using Blocks = std::map<char*, Block>;

    void add_chunk(size_t bytes);
    void insert_free(char* data, size_t bytes, const char* chunk);

    mutable std::mutex mutex_;
    Blocks blocks_;                            // all, by address
    std::set<std::pair<size_t, char*>> free_;  // by size, then address: the same calls give the same addresses
    MemoryStats stats_;
};

}  // namespace sam3::cpu
