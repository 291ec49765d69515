#include "progress.h"

#include "util/error.h"

#include <algorithm>
#include <cstdio>

namespace sam3::cli {

std::string Pace::next(int64_t done, int64_t total) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    ++finished_;
    const double rate = static_cast<double>(finished_) / std::max(seconds, 1e-9);
    char digits[32];
    std::snprintf(digits, sizeof digits, rate < 1 ? "%.2f" : "%.1f", rate);
    std::string text = str(digits, " ", unit_, "/s");
    if (total > 0) {
        const auto left = static_cast<int64_t>(static_cast<double>(total - done) / rate);
        const int64_t rest = left % 60;
        text += str(", ", left / 60, ":", rest < 10 ? "0" : "", rest, " left");
    }
    return text;
}

}  // namespace sam3::cli
