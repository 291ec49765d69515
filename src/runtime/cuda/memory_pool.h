#pragma once

#include "runtime/device.h"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace sam3::cuda {

// Memory of one GPU, taken from the driver in large pieces and reused. A block may be handed out again as soon as it
// comes back, because all work runs in one stream: whoever gets it next comes later. Best fit; split on use, joined
// with free neighbours of the same piece. Thread-safe.
class MemoryPool {
public:
    static constexpr size_t kAlignment = 256;

    enum class Pieces { returned, kept };  // whether unused ones may go back to the driver

    explicit MemoryPool(int gpu, Pieces pieces = Pieces::returned) : gpu_(gpu), returns_(pieces == Pieces::returned) {}
    MemoryPool(const MemoryPool&) = delete;
    MemoryPool& operator=(const MemoryPool&) = delete;
    ~MemoryPool();

    void* allocate(size_t bytes);  // fails with the need and what is free
    void release(void* data);
    // Between these, what comes back is not handed out again: work in another stream may still read it.
    void hold();
    void let_go();
    void trim();

    MemoryStats stats() const;
    void reset_peak();

private:
    struct Block {
        size_t bytes;
        bool free;
        char* piece;  // where its piece begins
    };
    using Blocks = std::map<char*, Block>;

    void grow(size_t bytes);
    void free_pieces();
    void insert_free(Blocks::iterator block);

    int gpu_;
    bool returns_;
    mutable std::mutex mutex_;
    Blocks blocks_;  // all, by address
    std::set<std::pair<size_t, char*>> free_;
    std::map<char*, size_t> pieces_;
    MemoryStats stats_;
    bool holding_ = false;
    std::vector<void*> held_;
};

// A tensor's memory from a pool.
struct PooledBuffer : Buffer {
    PooledBuffer(Device* owner, std::shared_ptr<MemoryPool> from, size_t size) : pool(std::move(from)) {
        device = owner;
        data = pool->allocate(size);
        bytes = size;
    }
    ~PooledBuffer() override { pool->release(data); }

    std::shared_ptr<MemoryPool> pool;
    bool stays = false;  // belongs to a graph, which will hand it out again
};

}  // namespace sam3::cuda
