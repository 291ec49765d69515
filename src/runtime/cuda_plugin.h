#pragma once

#include <cstddef>
#include <cstdint>

// The functions that libsam3_cuda.so exports. Plain C types: the plug-in is loaded on demand and may be built by
// another compiler than the program.
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
}
