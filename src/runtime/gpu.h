#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sam3 {

struct Gpu {
    std::string name;
    uint64_t total_bytes = 0;
    uint64_t free_bytes = 0;
    int major = 0, minor = 0;  // compute capability
    int multiprocessors = 0;
};

struct GpuSearch {
    std::vector<Gpu> gpus;
    std::string reason;  // why there are none, in words
};

// Asks the CUDA plug-in, which is looked for beside the program or library and on the linker's path (SAM3_CUDA_PLUGIN
// names another file). Never fails.
GpuSearch find_gpus();

}  // namespace sam3
