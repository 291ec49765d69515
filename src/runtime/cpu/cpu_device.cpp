#include "runtime/cpu/cpu_device.h"

#include "runtime/cpu/kernels.h"

#include <cstring>
#include <utility>

namespace sam3::cpu {

namespace {

struct PooledBuffer : Buffer {
    PooledBuffer(Device* owner, std::shared_ptr<MemoryPool> from, size_t size) : pool(std::move(from)) {
        device = owner;
        data = pool->allocate(size);
        bytes = size;
    }
    ~PooledBuffer() override { pool->release(data); }

    std::shared_ptr<MemoryPool> pool;
};

}  // namespace

CpuDevice::CpuDevice() : pool_(std::make_shared<MemoryPool>()) {
#define SAM3_KERNEL(name, Args) kernels_.name = &cpu::name;
    SAM3_FOR_EACH_KERNEL(SAM3_KERNEL)
#undef SAM3_KERNEL
}

std::shared_ptr<Buffer> CpuDevice::allocate(size_t bytes) { return std::make_shared<PooledBuffer>(this, pool_, bytes); }

void CpuDevice::copy_from_host(void* destination, const void* source, size_t bytes) {
    if (bytes > 0) std::memcpy(destination, source, bytes);
}

void CpuDevice::copy_to_host(void* destination, const void* source, size_t bytes) {
    if (bytes > 0) std::memcpy(destination, source, bytes);
}

std::shared_ptr<const PackedLinear> CpuDevice::pack_linear(const LinearSource& source, Precision precision) {
    return cpu::pack_linear(*this, source, precision);
}

std::shared_ptr<const PackedConv2d> CpuDevice::pack_conv2d(const Conv2dSource& source, Precision precision) {
    return cpu::pack_conv2d(*this, source, precision);
}

}  // namespace sam3::cpu

namespace sam3 {

std::shared_ptr<Device> make_cpu_device() { return std::make_shared<cpu::CpuDevice>(); }

}  // namespace sam3
