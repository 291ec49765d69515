#pragma once

#include "bench_tasks.h"
#include "engine/timing.h"

// What the tasks of `sam3 bench` share.
namespace sam3::cli {

// From the device's being idle to its having done the work.
template <typename Work>
double seconds_of(Device& device, const Work& work) {
    double seconds = 0;
    device.synchronize();
    {
        const Timing timing(seconds, &device);
        work();
    }
    return seconds;
}

inline VisualQuery click_at(const Image& image, double x, double y) {
    VisualQuery query;
    query.points.push_back({static_cast<float>(image.width * x), static_cast<float>(image.height * y), true});
    return query;
}

// What the session took for each step of its last picture; gives their sum.
inline double add_steps(const ImageSession& session, BenchTimes& times) {
    double whole = 0;
    for (const auto& [step, seconds] : session.seconds()) {
        times.steps[step].push_back(seconds);
        whole += seconds;
    }
    return whole;
}

}  // namespace sam3::cli
