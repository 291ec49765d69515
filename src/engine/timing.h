#pragma once

#include <chrono>

namespace sam3 {

// Adds the time until the end of its scope to a total, in seconds.
class Timing {
public:
    explicit Timing(double& total) : total_(total), start_(std::chrono::steady_clock::now()) {}
    Timing(const Timing&) = delete;
    Timing& operator=(const Timing&) = delete;
    ~Timing() { total_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

private:
    double& total_;
    std::chrono::steady_clock::time_point start_;
};

}  // namespace sam3
