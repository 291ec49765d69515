#pragma once

#include "runtime/tensor.h"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

namespace sam3::cuda {

// Host memory that the GPU copies to at full speed. Pinning takes long, so blocks are kept and used again.
// Thread-safe.
class PinnedPool {
public:
    PinnedPool() = default;
    PinnedPool(const PinnedPool&) = delete;
    PinnedPool& operator=(const PinnedPool&) = delete;
    ~PinnedPool();

    // Goes back to the pool, which it keeps alive.
    static std::shared_ptr<Buffer> allocate(const std::shared_ptr<PinnedPool>& pool, size_t bytes);

private:
    struct Block;
    void release(void* data, size_t bytes);

    std::mutex mutex_;
    std::multimap<size_t, void*> free_;  // by size
    size_t kept_ = 0;
};

}  // namespace sam3::cuda
