#pragma once

#include "runtime/cpu/memory_pool.h"
#include "runtime/device.h"

#include <memory>
#include <string>

namespace sam3::cpu {

// linear.cpp and conv2d.cpp
std::shared_ptr<const PackedLinear> pack_linear(Device& device, const LinearSource& source, Precision precision);
std::shared_ptr<const PackedConv2d> pack_conv2d(Device& device, const Conv2dSource& source, Precision precision);

class CpuDevice final : public Device {
public:
    CpuDevice();

    std::string name() const override { return "cpu"; }
    bool is_host() const override { return true; }
    const KernelTable& kernels() const override { return kernels_; }
    bool has_precision(Precision precision) const override { return precision != Precision::fp8; }

    std::shared_ptr<Buffer> allocate(size_t bytes) override;
    MemoryStats memory() const override { return pool_->stats(); }
    void reset_peak() override { pool_->reset_peak(); }
    void trim() override { pool_->trim(); }

    void copy_from_host(void* destination, const void* source, size_t bytes) override;
    void copy_to_host(void* destination, const void* source, size_t bytes) override;
    void synchronize() override {}

    std::shared_ptr<const PackedLinear> pack_linear(const LinearSource& source, Precision precision) override;
    std::shared_ptr<const PackedConv2d> pack_conv2d(const Conv2dSource& source, Precision precision) override;

private:
    KernelTable kernels_;
    std::shared_ptr<MemoryPool> pool_;  // shared with the buffers, which may outlive the device
};

}  // namespace sam3::cpu
