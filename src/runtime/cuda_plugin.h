#pragma once

#include <cstddef>
#include <cstdint>

namespace sam3 {
class Device;
// What program and plug-in must have in common before one may use the other's C++ objects: the version, the compiler
// and the layout of its strings. Each compiles this line for itself.
#define SAM3_CUDA_PLUGIN_TEXT(value) #value
#define SAM3_CUDA_PLUGIN_ABI(layout) \
    "sam3 " SAM3_VERSION ", compiler " __VERSION__ ", strings " SAM3_CUDA_PLUGIN_TEXT(layout)
inline constexpr char kCudaPluginAbi[] = SAM3_CUDA_PLUGIN_ABI(_GLIBCXX_USE_CXX11_ABI);
}  // namespace sam3

// The functions that libsam3_cuda.so exports; it is loaded on demand and may come from another build than the program.
extern "C" {

struct Sam3CudaDevice {
    char name[256];
    uint64_t total_bytes;
    uint64_t free_bytes;
    int major, minor;  // compute capability
    int multiprocessors;
};

// Fills `out` with up to `capacity` GPUs and returns how many there are; below 0 when the driver or runtime fails, and
// `error` then says why.
using Sam3CudaDevicesFunction = int(Sam3CudaDevice* out, int capacity, char* error, size_t error_size);
Sam3CudaDevicesFunction sam3_cuda_devices;

// A new device on a GPU, which the caller deletes. Null when `abi` is not the plug-in's own kCudaPluginAbi or the GPU
// cannot be used, and `error` then says why.
using Sam3CudaMakeDeviceFunction = sam3::Device*(const char* abi, int gpu, char* error, size_t error_size);
Sam3CudaMakeDeviceFunction sam3_cuda_make_device;
}
