#include "runtime/cuda/cuda_device.h"

#include "runtime/cuda/few_tokens.h"
#include "runtime/cuda/gemm.h"
#include "runtime/cuda/kernels.h"

#include <algorithm>

namespace sam3::cuda {

CudaDevice::CudaDevice(int gpu) : gpu_(gpu) {
    check(cudaSetDevice(gpu), "choosing the GPU");
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, gpu), "asking for the GPU's properties");
    constexpr int kOldestGeneration = 8;  // Ampere: bf16 tensor cores and asynchronous copies
    if (properties.major < kOldestGeneration)
        fail("the GPU ", properties.name, " has compute capability ", properties.major, ".", properties.minor,
             ": 8.0 or newer is needed (Ampere, 2020): use --device cpu");
    name_ = str("cuda:", gpu, " (", properties.name, ")");
    multiprocessors_ = properties.multiProcessorCount;
    hopper_ = properties.major == 9 && properties.minor == 0;
    int least = 0;
    int most = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &most), "asking for priorities");
    for (size_t lane = 0; lane < kLanes; ++lane) {
        check(cudaStreamCreateWithPriority(&streams_[lane], cudaStreamNonBlocking, lane == 0 ? most : least),
              "making a stream");
        scratch_[lane] = std::make_shared<MemoryPool>(gpu, MemoryPool::Pieces::kept);
    }
    for (cudaEvent_t* event : {&forked_[0], &forked_[1], &joined_[0], &joined_[1], &aside_, &before_aside_})
        check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "making an event");
    pool_ = std::make_shared<MemoryPool>(gpu);
    pinned_ = std::make_shared<PinnedPool>();
    gemms_ = std::make_unique<GemmPlans>(*pool_);
#define SAM3_KERNEL(name, Args) kernels_.name = &cuda::name;
    SAM3_FOR_EACH_KERNEL(SAM3_KERNEL)
#undef SAM3_KERNEL
    few_tokens_ = std::make_unique<FewTokens>(*this);
}

CudaDevice::~CudaDevice() {
    cudaSetDevice(gpu_);
    few_tokens_.reset();
    for (cudaStream_t stream : streams_) cudaStreamSynchronize(stream);
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
    from_aside_.clear();
    for (cudaEvent_t event : {forked_[0], forked_[1], joined_[0], joined_[1], aside_, before_aside_})
        cudaEventDestroy(event);
}

std::unique_lock<std::recursive_mutex> CudaDevice::lock() {
    std::unique_lock<std::recursive_mutex> held(mutex_);
    check(cudaSetDevice(gpu_), "choosing the GPU");
    return held;
}

cudaStream_t CudaDevice::stream() {
    if (few_tokens_) few_tokens_->start();
    if (!capturing_) await_aside();
    return stream_of(lane_);
}

std::shared_ptr<Buffer> CudaDevice::allocate(size_t bytes) {
    const std::lock_guard held(mutex_);
    if (!capturing_) return std::make_shared<PooledBuffer>(this, pool_, bytes);
    const bool keep = std::find(kept_.begin(), kept_.end(), allocated_.size()) != kept_.end();
    auto buffer = std::make_shared<PooledBuffer>(this, keep ? pool_ : scratch_[static_cast<size_t>(lane_)], bytes);
    buffer->stays = keep;
    allocated_.push_back(buffer.get());
    return buffer;
}

std::shared_ptr<Buffer> CudaDevice::allocate_host(size_t bytes) {
    const auto held = lock();
    return PinnedPool::allocate(pinned_, bytes);
}

MemoryStats CudaDevice::memory() const {
    MemoryStats stats = pool_->stats();
    for (const auto& pool : scratch_) {
        const MemoryStats captured = pool->stats();
        stats.reserved += captured.reserved;
        stats.in_use += captured.reserved;
        stats.peak += captured.reserved;
    }
    return stats;
}

void CudaDevice::copy_from_host(void* destination, const void* source, size_t bytes) {
    if (bytes == 0) return;
    const auto held = lock();
    if (capturing_) fail("a stage copies from host memory: it cannot be captured");
    check(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyHostToDevice, stream_of(Lane::main)),
          "copying to the GPU");
}

void CudaDevice::copy_to_host(void* destination, const void* source, size_t bytes) {
    if (bytes == 0) return;
    const auto held = lock();
    if (capturing_) fail("a stage copies to host memory: it cannot be captured");
    check(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDeviceToHost, stream()), "copying from the GPU");
    check(cudaStreamSynchronize(stream()), "waiting for the GPU");
}

void CudaDevice::synchronize() {
    const auto held = lock();
    if (!capturing_) check(cudaStreamSynchronize(stream()), "waiting for the GPU");
}

}  // namespace sam3::cuda
