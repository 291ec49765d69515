#pragma once

#include "runtime/device.h"
#include "weights/binder.h"

// What layers share when they are loaded. A layer's constructor takes its weights out of a scope, each with the shape
// it must have, and packs them for the device; its forward is const and may run in several threads.
namespace sam3::nn {

struct LoadContext {
    Device& device;
    Precision precision = Precision::f32;
};

// A dense copy of host memory on the device.
Tensor to_device(const LoadContext& context, const Tensor& host);

}  // namespace sam3::nn
