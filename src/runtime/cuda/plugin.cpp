#include "runtime/cuda_plugin.h"

#include "runtime/cuda/cuda_device.h"

#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <exception>

namespace {

int report(cudaError_t status, char* error, size_t error_size) {
    int driver = 0;
    cudaDriverGetVersion(&driver);  // 0: there is none
    const int needed = CUDART_VERSION;
    if (status == cudaErrorInsufficientDriver && driver > 0)
        std::snprintf(error, error_size,
                      "NVIDIA's driver is too old: it knows CUDA %d.%d, this program was built with %d.%d; update it",
                      driver / 1000, driver % 1000 / 10, needed / 1000, needed % 1000 / 10);
    else if (status == cudaErrorInsufficientDriver)
        std::snprintf(error, error_size, "NVIDIA's driver is not installed");
    else
        std::snprintf(error, error_size, "%s", cudaGetErrorString(status));
    return -1;
}

}  // namespace

extern "C" {

int sam3_cuda_devices(Sam3CudaDevice* out, int capacity, char* error, size_t error_size) {
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

sam3::Device* sam3_cuda_make_device(const char* abi, int gpu, char* error, size_t error_size) {
    if (std::strcmp(abi, sam3::kCudaPluginAbi) != 0) {
        std::snprintf(error, error_size,
                      "program and plug-in come from different builds (%s; plug-in: %s); build both together", abi,
                      sam3::kCudaPluginAbi);
        return nullptr;
    }
    try {
        return new sam3::cuda::CudaDevice(gpu);
    } catch (const std::exception& problem) {  // no exception crosses a C function
        std::snprintf(error, error_size, "%s", problem.what());
        return nullptr;
    }
}
}
