#pragma once

#include "runtime/device.h"

#include <memory>
#include <string>

namespace sam3 {

struct DeviceChoice {
    std::shared_ptr<Device> device;
    std::string why_no_gpu;  // for "auto" on the CPU: a sentence
};

// What a name stands for. "cpu"; "cuda": the first GPU; "cuda:1": the second one; "auto" or nothing: what the
// environment variable SAM3_DEVICE names, else the first GPU where it can be used, else the CPU. Fails with a sentence
// when the name is none of these or the GPU that it names cannot be used.
DeviceChoice choose_device(const std::string& name);
bool is_device_name(const std::string& name);  // whether it could be one; the GPU need not be there

// "f32", "bf16", ...; "auto" or nothing: int8 for weights that are stored so where the device has it, else the device's
// usual one. Fails naming those that the device has.
Precision choose_precision(const Device& device, const std::string& name, bool stored_in_int8 = false);

}  // namespace sam3
