#include "runtime/shape_device.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace sam3 {

namespace {

struct ZeroBuffer : Buffer {
    ZeroBuffer(Device* owner, size_t size) {
        device = owner;
        data = std::calloc(size == 0 ? 1 : size, 1);
        bytes = size;
        if (data == nullptr) throw std::bad_alloc();
    }
    ~ZeroBuffer() override { std::free(data); }
};

}  // namespace

std::shared_ptr<Buffer> ShapeDevice::allocate(size_t bytes) { return std::make_shared<ZeroBuffer>(this, bytes); }

void ShapeDevice::copy_to_host(void* destination, const void* /*source*/, size_t bytes) {
    if (bytes > 0) std::memset(destination, 0, bytes);
}

std::shared_ptr<const PackedLinear> ShapeDevice::pack_linear(const LinearSource& source, Precision /*precision*/) {
    auto packed = std::make_shared<PackedLinear>();
    for (const LayerWeights& weight : source.weights) {
        packed->in_features = weight.values.dim(1);
        packed->out_features += weight.values.dim(0);
    }
    return packed;
}

std::shared_ptr<const PackedConv2d> ShapeDevice::pack_conv2d(const Conv2dSource& source, Precision /*precision*/) {
    auto packed = std::make_shared<PackedConv2d>();
    packed->in_channels = source.weight.values.dim(1) * source.groups;
    packed->out_channels = source.weight.values.dim(0);
    packed->kernel_h = static_cast<int>(source.weight.values.dim(2));
    packed->kernel_w = static_cast<int>(source.weight.values.dim(3));
    packed->stride = source.stride;
    packed->padding = source.padding;
    packed->groups = source.groups;
    return packed;
}

}  // namespace sam3
