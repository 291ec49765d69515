#include "runtime/gpu.h"

#include "runtime/cuda_plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

namespace sam3 {

namespace {

constexpr const char* kPlugin = "libsam3_cuda.so";
constexpr int kMostGpus = 64;

// The folder of the file that this code is in, with a slash at its end; empty when unknown.
std::string own_folder() {
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void*>(&find_gpus), &info) == 0 || info.dli_fname == nullptr) return {};
    const std::string path = info.dli_fname;
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

void* open_plugin() {
    if (const char* named = std::getenv("SAM3_CUDA_PLUGIN")) return dlopen(named, RTLD_NOW | RTLD_LOCAL);
    const std::string folder = own_folder();
    if (void* library = folder.empty() ? nullptr : dlopen((folder + kPlugin).c_str(), RTLD_NOW | RTLD_LOCAL))
        return library;
    return dlopen(kPlugin, RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

GpuSearch find_gpus() {
    // The plug-in stays loaded: what it holds on the GPU outlives a call.
    static void* const library = open_plugin();
    if (library == nullptr) return {{}, "the CUDA plug-in libsam3_cuda.so was not found"};
    const auto devices = reinterpret_cast<Sam3CudaDevicesFunction*>(dlsym(library, "sam3_cuda_devices"));
    if (devices == nullptr) return {{}, "libsam3_cuda.so is of another version: it has no function sam3_cuda_devices"};
    std::vector<Sam3CudaDevice> found(kMostGpus);
    char error[256] = "";
    const int count = devices(found.data(), kMostGpus, error, sizeof error);
    if (count < 0) return {{}, std::string("CUDA says: ") + error};
    if (count == 0) return {{}, "CUDA finds no GPU"};
    GpuSearch search;
    for (int i = 0; i < std::min(count, kMostGpus); ++i) {
        const Sam3CudaDevice& gpu = found[static_cast<size_t>(i)];
        search.gpus.push_back({gpu.name, gpu.total_bytes, gpu.free_bytes, gpu.major, gpu.minor, gpu.multiprocessors});
    }
    return search;
}

}  // namespace sam3
