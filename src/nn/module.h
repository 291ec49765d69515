#pragma once

#include "runtime/device.h"
#include "weights/binder.h"

// What layers share when they are loaded. A layer's constructor takes its weights out of a scope, each with the shape
// it must have, and packs them for the device; its forward is const and may run in several threads.
namespace sam3::nn {

struct LoadContext {
    Device& device;
    Precision precision = Precision::f32;  // that was asked for
    // Which precision a layer's weights get, by its name; null: f32.
    Precision (*policy)(const std::string& name, Precision asked) = nullptr;

    Precision precision_of(const Scope& scope) const {
        return policy == nullptr ? Precision::f32 : policy(scope.full_name("weight"), precision);
    }
};

// A dense copy of host memory on the device.
Tensor to_device(const LoadContext& context, const Tensor& host);

}  // namespace sam3::nn
