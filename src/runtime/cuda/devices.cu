#include "runtime/cuda_plugin.h"

#include <cuda_runtime.h>

#include <cstdio>

namespace {

int report(cudaError_t status, char* error, size_t error_size) {
    std::snprintf(error, error_size, "%s", cudaGetErrorString(status));
    return -1;
}

}  // namespace

extern "C" int sam3_cuda_devices(Sam3CudaDevice* out, int capacity, char* error, size_t error_size) {
    int count = 0;
    if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess)
        return status == cudaErrorNoDevice ? 0 : report(status, error, error_size);
    for (int i = 0; i < count && i < capacity; ++i) {
        cudaDeviceProp properties{};
        if (const cudaError_t status = cudaGetDeviceProperties(&properties, i); status != cudaSuccess)
            return report(status, error, error_size);
        size_t free_bytes = 0;
        size_t total_bytes = 0;
        cudaSetDevice(i);
        if (const cudaError_t status = cudaMemGetInfo(&free_bytes, &total_bytes); status != cudaSuccess)
            return report(status, error, error_size);
        std::snprintf(out[i].name, sizeof out[i].name, "%s", properties.name);
        out[i].total_bytes = total_bytes;
        out[i].free_bytes = free_bytes;
        out[i].major = properties.major;
        out[i].minor = properties.minor;
        out[i].multiprocessors = properties.multiProcessorCount;
    }
    return count;
}
