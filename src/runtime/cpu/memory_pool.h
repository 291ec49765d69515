#pragma once

#include "runtime/device.h"

#include <cstddef>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace sam3::cpu {

// Memory for tensors, taken from the system in large steps and reused: a steady stream of frames asks the system for
// nothing. Best fit; a block is split on use and joined with its free neighbours when it comes back. The pool grows
// downwards from where it began, so that what one step of a network leaves free is one room for the next. Thread-safe.
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
        bool free;
    };
    using Blocks = std::map<char*, Block>;

    void grow(size_t bytes);
    void insert_free(char* data, size_t bytes);

    mutable std::mutex mutex_;
    Blocks blocks_;                            // all, by address
    char* edge_ = nullptr;                     // where the pool grew last
    std::set<std::pair<size_t, char*>> free_;  // by size, then address: the same calls give the same addresses
    MemoryStats stats_;
};

}  // namespace sam3::cpu
