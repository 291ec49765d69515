#pragma once

#include "runtime/cuda/memory_pool.h"
#include "runtime/cuda/pinned_pool.h"
#include "runtime/device.h"

#include <cuda_runtime.h>

#include <memory>
#include <mutex>
#include <string>

namespace sam3::cuda {

class GemmPlans;

// One NVIDIA GPU. All work runs in one stream; sessions in several threads take turns at launching.
class CudaDevice final : public Device {
public:
    explicit CudaDevice(int gpu);
    ~CudaDevice() override;

    std::string name() const override { return name_; }
    bool is_host() const override { return false; }
    const KernelTable& kernels() const override { return kernels_; }
    bool has_precision(Precision precision) const override {
        return precision == Precision::f32 || precision == Precision::bf16;
    }
    Precision usual_precision() const override { return Precision::bf16; }
    DType storage_type(Precision precision) const override {
        return precision == Precision::f32 ? DType::f32 : DType::bf16;
    }

    std::shared_ptr<Buffer> allocate(size_t bytes) override;
    std::shared_ptr<Buffer> allocate_host(size_t bytes) override;
    MemoryStats memory() const override;
    void reset_peak() override { pool_->reset_peak(); }
    void trim() override { pool_->trim(); }

    void copy_from_host(void* destination, const void* source, size_t bytes) override;
    void copy_to_host(void* destination, const void* source, size_t bytes) override;
    void synchronize() override;

    std::shared_ptr<const PackedLinear> pack_linear(const LinearSource& source, Precision precision) override;
    std::shared_ptr<const PackedConv2d> pack_conv2d(const Conv2dSource& source, Precision precision) override;

    std::vector<Tensor> run_stage(std::unique_ptr<StageCache>& cache, const std::string& key,
                                  const std::vector<Tensor>& inputs, const StageBody& body) override;

    // For kernels: one launches at a time, in the thread that holds the lock.
    [[nodiscard]] std::unique_lock<std::recursive_mutex> lock();
    cudaStream_t stream() const { return stream_; }
    GemmPlans& gemms() { return *gemms_; }
    bool capturing() const { return capturing_; }
    int multiprocessors() const { return multiprocessors_; }
    bool is_hopper() const { return hopper_; }  // whose own instructions some kernels use

private:
    void capture(void* graph, const std::vector<Tensor>& inputs, const StageBody& body);

    int gpu_;
    int multiprocessors_ = 1;
    bool hopper_ = false;
    std::string name_;
    KernelTable kernels_;
    cudaStream_t stream_ = nullptr;
    bool capturing_ = false;
    std::recursive_mutex mutex_;
    std::shared_ptr<MemoryPool> pool_;    // shared with the buffers, which may outlive the device
    std::shared_ptr<MemoryPool> graphs_;  // memory that captured work uses; its graphs run one after the other
    std::shared_ptr<PinnedPool> pinned_;
    std::unique_ptr<GemmPlans> gemms_;
};

}  // namespace sam3::cuda
