#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sam3 {

class Device;

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

// The device of one GPU, counted from 0 as CUDA counts. The same object for everyone who asks while one holds it, so
// that models share its memory. Fails with a sentence: no plug-in, no such GPU, a driver that is too old.
std::shared_ptr<Device> make_cuda_device(int gpu);

}  // namespace sam3
