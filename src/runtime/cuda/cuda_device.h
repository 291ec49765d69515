#pragma once

#include "runtime/cuda/memory_pool.h"
#include "runtime/cuda/pinned_pool.h"
#include "runtime/device.h"

#include <cuda_runtime.h>

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace sam3::cuda {

class FewTokens;
class GemmPlans;

// Lines of work. Stages and all else run in the main one; parts of a stage that may run beside its rest in the next
// two; whole stages that may run beside the others in the last.
enum class Lane { main, branch, second_branch, aside };
constexpr size_t kLanes = 4;
constexpr size_t kMostBranches = 2;

// One NVIDIA GPU. Sessions in several threads take turns at launching.
class CudaDevice final : public Device {
public:
    explicit CudaDevice(int gpu);
    ~CudaDevice() override;

    std::string name() const override { return name_; }
    bool is_host() const override { return false; }
    const KernelTable& kernels() const override { return kernels_; }
    bool has_precision(Precision precision) const override {
        return precision == Precision::f32 || precision == Precision::bf16 ||
               (precision == Precision::fp8 && is_hopper());
    }
    Precision usual_precision() const override { return Precision::bf16; }
    DType storage_type(Precision precision) const override {
        return precision == Precision::f32 ? DType::f32 : DType::bf16;
    }
    bool rotates_products() const override { return true; }
    // f16 adds an eighth of bf16's error, and half of f32's bytes (docs/performance.md).
    DType sum_type(Precision precision) const override {
        return precision != Precision::f32 && is_hopper() ? DType::f16 : DType::f32;
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
    std::vector<Tensor> run_stage_aside(std::unique_ptr<StageCache>& cache, const std::string& key,
                                        const std::vector<Tensor>& host_inputs, const StageBody& body) override;
    void begin_branch(BranchShare share) override;
    void end_branch() override;
    void join_branch() override;

    // For kernels: one launches at a time, in the thread that holds the lock.
    [[nodiscard]] std::unique_lock<std::recursive_mutex> lock();
    Lane lane() const { return lane_; }
    cudaStream_t stream();  // starts what was noted down first, and waits for a stage aside
    FewTokens& few_tokens() { return *few_tokens_; }
    GemmPlans& gemms() { return *gemms_; }
    bool capturing() const { return capturing_; }
    // While capturing: a few bytes that are zero when a graph begins and that nothing else in it uses; null when there
    // are none left.
    static constexpr size_t kCounterBytes = 1024;
    void* next_counter();
    // For kernels that stay on them: a branch leaves some to what it runs beside.
    int multiprocessors() const { return lane_ == Lane::branch ? branch_multiprocessors_ : multiprocessors_; }
    bool is_branched() const { return branches_ > 0; }
    bool is_hopper() const { return hopper_; }  // whose own instructions some kernels use

private:
    struct Captured;
    struct Graph;
    // places: where inputs are read; null for those that are copied to memory of the graph
    std::unique_ptr<Captured> capture(Lane lane, bool owning, const std::vector<const void*>& places,
                                      const std::vector<Tensor>& inputs, const StageBody& body);
    std::vector<Tensor> run_body(const std::vector<Tensor>& inputs, const StageBody& body);
    Captured* variant_for(Graph& graph, const std::vector<Tensor>& inputs, const StageBody& body);
    std::vector<Tensor> copied(const std::vector<Tensor>& tensors, Lane lane);
    void forget_branches(Lane lane);
    void await_aside();
    cudaStream_t stream_of(Lane lane) const { return streams_[static_cast<size_t>(lane)]; }
    MemoryPool& scratch(Lane lane) const { return *scratch_[static_cast<size_t>(lane)]; }

    int gpu_;
    int multiprocessors_ = 1, branch_multiprocessors_ = 1;
    bool hopper_ = false;
    std::string name_;
    KernelTable kernels_;
    std::array<cudaStream_t, kLanes> streams_{};
    Lane lane_ = Lane::main;
    bool capturing_ = false;
    size_t branches_ = 0;  // that have not been joined yet
    std::array<cudaEvent_t, kMostBranches> forked_{}, joined_{};
    cudaEvent_t aside_ = nullptr, before_aside_ = nullptr;  // the end of the last stage aside; what the others had then
    std::vector<Tensor> from_aside_;                        // outputs for which the main lane has not waited yet
    std::vector<const Buffer*> allocated_;                  // while capturing, in order
    std::vector<size_t> kept_;                              // which of them outlive the graph's run: its outputs
    Tensor counters_;                                       // while capturing
    int64_t counters_used_ = 0;
    std::recursive_mutex mutex_;
    std::shared_ptr<MemoryPool> pool_;  // shared with the buffers, which may outlive the device
    // Memory that captured work of a lane uses: the graphs of a lane run one after the other.
    std::array<std::shared_ptr<MemoryPool>, kLanes> scratch_;
    std::shared_ptr<PinnedPool> pinned_;
    std::unique_ptr<GemmPlans> gemms_;
    std::unique_ptr<FewTokens> few_tokens_;
};

}  // namespace sam3::cuda
