#include "runtime/cpu/cpu_device.h"

#include "runtime/cpu/kernels.h"
#include "util/error.h"

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

const char* name_of(Precision precision) {
    switch (precision) {
        case Precision::f32: return "f32";
        case Precision::bf16: return "bf16";
        case Precision::int8: return "int8";
        case Precision::fp8: return "fp8";
    }
    return "?";
}

void require_f32(Precision precision) {
    if (precision != Precision::f32)
        fail("precision ", name_of(precision), " is not available on the CPU device: use f32");
}

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
    require_f32(precision);
    return cpu::pack_linear(*this, source);
}

std::shared_ptr<const PackedConv2d> CpuDevice::pack_conv2d(const Conv2dSource& source, Precision precision) {
    require_f32(precision);
    return cpu::pack_conv2d(*this, source);
}

}  // namespace sam3::cpu

namespace sam3 {

std::shared_ptr<Device> make_cpu_device() { return std::make_shared<cpu::CpuDevice>(); }

}  // namespace sam3
