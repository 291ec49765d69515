#pragma once

#include "runtime/device.h"
#include "runtime/gpu.h"

#include <cstdlib>
#include <memory>
#include <string>

namespace sam3::test {

// What tests of whole networks run on: SAM3_TEST_DEVICE, "cpu" unless told, or "cuda".
inline std::string device_name() {
    const char* const named = std::getenv("SAM3_TEST_DEVICE");
    return named != nullptr ? named : "cpu";
}

inline Device& device() {
    static const std::shared_ptr<Device> chosen = device_name() == "cpu" ? make_cpu_device() : make_cuda_device(0);
    return *chosen;
}

}  // namespace sam3::test
