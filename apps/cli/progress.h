#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace sam3::cli {

// How fast a long job goes: "0.45 frames/s, 2:58 left".
class Pace {
public:
    explicit Pace(std::string unit) : unit_(std::move(unit)) {}

    // Called once for each finished one. total: -1 when it is not known.
    std::string next(int64_t done, int64_t total);

private:
    std::string unit_;
    int64_t finished_ = 0;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace sam3::cli
