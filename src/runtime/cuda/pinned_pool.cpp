#include "runtime/cuda/pinned_pool.h"

#include "runtime/cuda/cuda_check.h"

#include <algorithm>

namespace sam3::cuda {

namespace {

constexpr size_t kLeast = size_t{64} << 10;
constexpr size_t kMostKept = size_t{512} << 20;

}  // namespace

struct PinnedPool::Block : Buffer {
    std::shared_ptr<PinnedPool> pool;
    size_t whole = 0;

    ~Block() override { pool->release(data, whole); }
};

PinnedPool::~PinnedPool() {
    for (const auto& [bytes, data] : free_) cudaFreeHost(data);
}

std::shared_ptr<Buffer> PinnedPool::allocate(const std::shared_ptr<PinnedPool>& pool, size_t bytes) {
    size_t whole = kLeast;
    while (whole < bytes) whole *= 2;
    void* data = nullptr;
    {
        const std::lock_guard lock(pool->mutex_);
        if (const auto found = pool->free_.find(whole); found != pool->free_.end()) {
            data = found->second;
            pool->free_.erase(found);
            pool->kept_ -= whole;
        }
    }
    if (data == nullptr) check(cudaHostAlloc(&data, whole, cudaHostAllocDefault), "pinning host memory");
    auto block = std::make_shared<Block>();
    block->data = data;
    block->bytes = bytes;
    block->whole = whole;
    block->pool = pool;
    return block;
}

void PinnedPool::release(void* data, size_t bytes) {
    {
        const std::lock_guard lock(mutex_);
        if (kept_ + bytes <= kMostKept) {
            free_.emplace(bytes, data);
            kept_ += bytes;
            return;
        }
    }
    cudaFreeHost(data);
}

}  // namespace sam3::cuda
