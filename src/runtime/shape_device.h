#pragma once

#include "runtime/device.h"

namespace sam3 {

// A device without memory of its own: networks load on it to show which weights they ask for, and cannot run.
class ShapeDevice : public Device {
public:
    std::string name() const override { return "shapes"; }
    bool is_host() const override { return true; }
    const KernelTable& kernels() const override { return kernels_; }

    std::shared_ptr<Buffer> allocate(size_t bytes) override;  // zeros that cost nothing until they are written
    MemoryStats memory() const override { return {}; }
    void reset_peak() override {}
    void trim() override {}

    void copy_from_host(void* /*destination*/, const void* /*source*/, size_t /*bytes*/) override {}
    void copy_to_host(void* destination, const void* source, size_t bytes) override;
    void synchronize() override {}

    std::shared_ptr<const PackedLinear> pack_linear(const LinearSource& source, Precision precision) override;
    std::shared_ptr<const PackedConv2d> pack_conv2d(const Conv2dSource& source, Precision precision) override;

private:
    KernelTable kernels_;  // all absent
};

}  // namespace sam3
