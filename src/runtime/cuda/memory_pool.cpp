#include "runtime/cuda/memory_pool.h"

#include "runtime/cuda/cuda_check.h"

#include <algorithm>
#include <iterator>

namespace sam3::cuda {

namespace {

constexpr size_t kPage = size_t{2} << 20;
constexpr size_t kPiece = size_t{64} << 20;  // the least that is asked for at a time

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

double gibibytes(size_t bytes) { return static_cast<double>(bytes) / (size_t{1} << 30); }

}  // namespace

MemoryPool::~MemoryPool() {
    cudaSetDevice(gpu_);
    for (const auto& [data, bytes] : pieces_) cudaFree(data);
}

void MemoryPool::insert_free(Blocks::iterator block) {
    block->second.free = true;
    const auto join = [&](Blocks::iterator left, Blocks::iterator right) {
        left->second.bytes += right->second.bytes;
        blocks_.erase(right);
        return left;
    };
    const auto after = std::next(block);
    if (after != blocks_.end() && after->second.free && after->second.piece == block->second.piece) {
        free_.erase({after->second.bytes, after->first});
        block = join(block, after);
    }
    if (block != blocks_.begin()) {
        const auto before = std::prev(block);
        if (before->second.free && before->second.piece == block->second.piece) {
            free_.erase({before->second.bytes, before->first});
            block = join(before, block);
        }
    }
    free_.emplace(block->second.bytes, block->first);
}

// Afterwards there is a free block of so many bytes.
void MemoryPool::grow(size_t bytes) {
    constexpr size_t kLargest = size_t{1} << 50;
    if (bytes > kLargest) fail("out of GPU memory: wanted ", gibibytes(bytes), " GiB at once");
    check(cudaSetDevice(gpu_), "choosing the GPU");
    const size_t size = std::max(round_up(bytes, kPage), kPiece);
    void* data = nullptr;
    if (cudaMalloc(&data, size) != cudaSuccess) {
        cudaGetLastError();  // it is not to be seen by the next launch
        free_pieces();
        if (cudaMalloc(&data, size) != cudaSuccess) {
            cudaGetLastError();
            size_t available = 0;
            size_t total = 0;
            cudaMemGetInfo(&available, &total);
            fail("out of GPU memory: wanted ", gibibytes(size), " GiB more, ", gibibytes(available), " GiB of ",
                 gibibytes(total), " GiB are free and ", gibibytes(stats_.in_use),
                 " GiB are in use here: use a smaller batch or image, or --device cpu");
        }
    }
    auto* start = static_cast<char*>(data);
    pieces_[start] = size;
    stats_.reserved += size;
    insert_free(blocks_.emplace(start, Block{size, true, start}).first);
}

void* MemoryPool::allocate(size_t bytes) {
    const std::lock_guard lock(mutex_);
    const size_t size = round_up(std::clamp<size_t>(bytes, 1, size_t{1} << 60), kAlignment);
    auto found = free_.lower_bound({size, nullptr});
    if (found == free_.end()) {
        grow(size);
        found = free_.lower_bound({size, nullptr});
    }
    char* const data = found->second;
    free_.erase(found);
    Block& block = blocks_.at(data);
    const size_t rest = block.bytes - size;
    block.free = false;
    block.bytes = size;
    if (rest > 0) {
        blocks_[data + size] = Block{rest, true, block.piece};
        free_.emplace(rest, data + size);
    }
    stats_.in_use += size;
    stats_.peak = std::max(stats_.peak, stats_.in_use);
    return data;
}

void MemoryPool::hold() {
    const std::lock_guard lock(mutex_);
    holding_ = true;
}

void MemoryPool::let_go() {
    std::vector<void*> back;
    {
        const std::lock_guard lock(mutex_);
        holding_ = false;
        back.swap(held_);
    }
    for (void* data : back) release(data);
}

void MemoryPool::release(void* data) {
    const std::lock_guard lock(mutex_);
    if (holding_) {
        held_.push_back(data);
        return;
    }
    const auto block = blocks_.find(static_cast<char*>(data));
    stats_.in_use -= block->second.bytes;
    insert_free(block);
}

// Pieces of which nothing is in use go back to the driver, which waits for the work that still reads them.
void MemoryPool::free_pieces() {
    if (!returns_) return;
    for (auto piece = pieces_.begin(); piece != pieces_.end();) {
        const auto block = blocks_.find(piece->first);
        if (!block->second.free || block->second.bytes != piece->second) {
            ++piece;
            continue;
        }
        free_.erase({block->second.bytes, block->first});
        blocks_.erase(block);
        cudaFree(piece->first);
        stats_.reserved -= piece->second;
        piece = pieces_.erase(piece);
    }
}

void MemoryPool::trim() {
    const std::lock_guard lock(mutex_);
    cudaSetDevice(gpu_);
    free_pieces();
}

MemoryStats MemoryPool::stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
}

void MemoryPool::reset_peak() {
    const std::lock_guard lock(mutex_);
    stats_.peak = stats_.in_use;
}

}  // namespace sam3::cuda
