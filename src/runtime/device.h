#pragma once

#include "runtime/kernels.h"
#include "runtime/layer_weights.h"
#include "runtime/tensor.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sam3 {

struct MemoryStats {
    size_t in_use = 0;    // handed out now
    size_t reserved = 0;  // held by the pool, handed out or not
    size_t peak = 0;      // highest in_use
};

// Sources of a linear layer's weights. Several are stacked by rows, so that q, k and v become one product. A missing
// bias counts as zero.
struct LinearSource {
    std::vector<LayerWeights> weights;  // each [out_i, in]
    std::vector<Tensor> biases;         // empty, or one per weight: [out_i] or undefined
};
struct Conv2dSource {
    LayerWeights weight;  // [out, in / groups, kh, kw], PyTorch's order
    Tensor bias;          // [out] or undefined
    int stride = 1, padding = 0, groups = 1;
};

// What a device keeps of the stages of one Ops.
struct StageCache {
    virtual ~StageCache() = default;
};

// What a branch may take of a device that runs it beside other work.
enum class BranchShare { third, most };

// Where tensors live and operators run. Thread-safe: several sessions share one device.
class Device {
public:
    virtual ~Device() = default;

    virtual std::string name() const = 0;
    virtual bool is_host() const = 0;  // tensor memory can be read by the CPU directly
    virtual const KernelTable& kernels() const = 0;
    // What large products may be computed in here, and what they are when nobody asks for anything.
    virtual bool has_precision(Precision precision) const { return precision == Precision::f32; }
    virtual Precision usual_precision() const { return Precision::f32; }
    // What tensors between the layers of a large part are kept in.
    virtual DType storage_type(Precision precision) const {
        (void)precision;
        return DType::f32;
    }
    // Whether linear() takes LinearArgs::rotation.
    virtual bool rotates_products() const { return false; }
    // What the sum of many layers over an image's tokens is kept in.
    virtual DType sum_type(Precision precision) const {
        (void)precision;
        return DType::f32;
    }

    virtual std::shared_ptr<Buffer> allocate(size_t bytes) = 0;  // pooled, 64-byte aligned, not cleared
    // Host memory that results land in fastest.
    virtual std::shared_ptr<Buffer> allocate_host(size_t bytes);
    virtual MemoryStats memory() const = 0;
    virtual void reset_peak() = 0;
    virtual void trim() = 0;  // gives unused pooled memory back to the system

    Tensor uploaded(const Tensor& host);  // a copy of a dense tensor
    virtual void copy_from_host(void* destination, const void* source, size_t bytes) = 0;
    virtual void copy_to_host(void* destination, const void* source, size_t bytes) = 0;
    virtual void synchronize() = 0;

    virtual std::shared_ptr<const PackedLinear> pack_linear(const LinearSource& source, Precision precision) = 0;
    virtual std::shared_ptr<const PackedConv2d> pack_conv2d(const Conv2dSource& source, Precision precision) = 0;

    // Runs the body of a stage. A device that can capture work replays it for a known key and equal shapes; what it
    // keeps for that lives in `cache`, which is empty at first.
    using StageBody = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;
    virtual std::vector<Tensor> run_stage(std::unique_ptr<StageCache>& cache, const std::string& key,
                                          const std::vector<Tensor>& inputs, const StageBody& body) {
        (void)cache;
        (void)key;
        return body(inputs);
    }
    // The same for a stage whose inputs lie in host memory, and which may run beside the work that was given before it:
    // what reads its outputs waits for them.
    virtual std::vector<Tensor> run_stage_aside(std::unique_ptr<StageCache>& cache, const std::string& key,
                                                const std::vector<Tensor>& host_inputs, const StageBody& body);

    // Within a stage: work between the first two calls may run beside what follows, until the third, which belongs to
    // the latest that was begun.
    virtual void begin_branch(BranchShare share) { (void)share; }
    virtual void end_branch() {}
    virtual void join_branch() {}
};

// The CPU device; one per process is enough.
std::shared_ptr<Device> make_cpu_device();

// Fails with the names of the operators that the device lacks, if any.
void require_all_operators(const Device& device);

}  // namespace sam3
