#pragma once

#include "runtime/device.h"

#include <chrono>
#include <exception>

namespace sam3 {

// Adds the time until the end of its scope to a total, in seconds; with a device, until it has done what it was asked.
class Timing {
public:
    explicit Timing(double& total, Device* device = nullptr)
        : total_(total), device_(device), start_(std::chrono::steady_clock::now()) {}
    Timing(const Timing&) = delete;
    Timing& operator=(const Timing&) = delete;
    ~Timing() {
        wait();
        total_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    }

private:
    void wait() const {
        try {
            if (device_ != nullptr) device_->synchronize();
        } catch (const std::exception&) {  // a device that failed says so again when its results are asked for
        }
    }

    double& total_;
    Device* device_;
    std::chrono::steady_clock::time_point start_;
};

}  // namespace sam3
