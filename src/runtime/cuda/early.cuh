#pragma once

#include "runtime/cuda/kernels.h"

#include <array>

// Launches with attributes: blocks in clusters, and kernels that start while the one before them still runs. In a chain
// of short kernels the start of each is then hidden behind the work of its predecessor.
namespace sam3::cuda {

// Waits until everything that was launched earlier has ended and can be seen. A kernel that starts early must call this
// in every thread before it reads what others write and before it writes. Elsewhere it does nothing.
__device__ inline void wait_for_earlier() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}

// Lets the next kernel start, when all blocks have said so, where there is room.
__device__ inline void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}

class KernelLaunch {
public:
    KernelLaunch(dim3 grid, unsigned threads, size_t shared, cudaStream_t stream) {
        config_.gridDim = grid;
        config_.blockDim = dim3(threads);
        config_.dynamicSmemBytes = shared;
        config_.stream = stream;
        config_.attrs = attributes_.data();
    }
    KernelLaunch(const KernelLaunch&) = delete;
    KernelLaunch& operator=(const KernelLaunch&) = delete;

    KernelLaunch& in_clusters(unsigned blocks) {
        cudaLaunchAttribute& attribute = attributes_[config_.numAttrs++];
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim = {blocks, 1, 1};
        return *this;
    }
    // Only Hopper and later can; the kernel must call wait_for_earlier(). Not in a branch: blocks that wait there for a
    // long kernel to end would fill the multiprocessors that it leaves to the work beside it.
    KernelLaunch& early(const ExecContext& context) {
        if (!device_of(context).is_hopper() || device_of(context).lane() == Lane::branch) return *this;
        cudaLaunchAttribute& attribute = attributes_[config_.numAttrs++];
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
        return *this;
    }
    // For blocks that wait for each other.
    KernelLaunch& all_at_once() {
        cudaLaunchAttribute& attribute = attributes_[config_.numAttrs++];
        attribute.id = cudaLaunchAttributeCooperative;
        attribute.val.cooperative = 1;
        return *this;
    }
    template <typename... Params, typename... Args>
    void start(const char* name, void (*kernel)(Params...), const Args&... args) const {
        check(cudaLaunchKernelEx(&config_, kernel, args...), name);
    }
    const cudaLaunchConfig_t& config() const { return config_; }

private:
    std::array<cudaLaunchAttribute, 2> attributes_{};
    cudaLaunchConfig_t config_{};
};

}  // namespace sam3::cuda
