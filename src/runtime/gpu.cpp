#include "runtime/gpu.h"

#include "runtime/cuda_plugin.h"
#include "runtime/device.h"
#include "util/error.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

namespace sam3 {

namespace {

constexpr const char* kPlugin = "libsam3_cuda.so";
constexpr int kMostGpus = 64;
constexpr size_t kErrorSize = 1024;

// The folder of the file that this code is in, with a slash at its end; empty when unknown.
std::string own_folder() {
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void*>(&find_gpus), &info) == 0 || info.dli_fname == nullptr) return {};
    const std::string path = info.dli_fname;
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

struct Plugin {
    void* library = nullptr;
    std::string reason;  // why it could not be loaded
};

// CUDA's libraries are 0.2 GB of memory, which a machine without a driver is spared.
bool has_driver() { return dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr; }

Plugin open_plugin() {
    const char* named = std::getenv("SAM3_CUDA_PLUGIN");
    const std::string path = named != nullptr ? named : own_folder() + kPlugin;
    const bool there = access(path.c_str(), F_OK) == 0;
    Plugin plugin;
    if (named == nullptr && there && !has_driver()) {
        plugin.reason = "there is no NVIDIA driver: libcuda.so.1 was not found";
        return plugin;
    }
    plugin.library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (plugin.library == nullptr && there) {  // a library that it needs is missing, or it is none itself
        const char* problem = dlerror();
        plugin.reason = str("the CUDA plug-in cannot be loaded: ", problem != nullptr ? problem : path);
        return plugin;
    }
    if (plugin.library == nullptr && named == nullptr) plugin.library = dlopen(kPlugin, RTLD_NOW | RTLD_LOCAL);
    if (plugin.library == nullptr)
        plugin.reason = str("the CUDA plug-in ", named != nullptr ? named : kPlugin, " was not found");
    return plugin;
}

// The plug-in stays loaded: what it holds on the GPU outlives a call.
const Plugin& plugin() {
    static const Plugin opened = open_plugin();
    return opened;
}

template <typename Function>
Function* plugin_function(const char* name) {
    return reinterpret_cast<Function*>(dlsym(plugin().library, name));
}

std::string lacks(const char* name) {
    return str(kPlugin, " is of another version of this program: it has no function ", name);
}

std::shared_ptr<Device> open_gpu(int gpu) {
    const auto make = plugin_function<Sam3CudaMakeDeviceFunction>("sam3_cuda_make_device");
    if (make == nullptr) fail(lacks("sam3_cuda_make_device"));
    char error[kErrorSize] = "";
    std::shared_ptr<Device> device(make(kCudaPluginAbi, gpu, error, sizeof error));
    if (!device) fail("GPU ", gpu, " cannot be used: ", error);
    return device;
}

}  // namespace

GpuSearch find_gpus() {
    if (plugin().library == nullptr) return {{}, plugin().reason};
    const auto devices = plugin_function<Sam3CudaDevicesFunction>("sam3_cuda_devices");
    if (devices == nullptr) return {{}, lacks("sam3_cuda_devices")};
    std::vector<Sam3CudaDevice> found(kMostGpus);
    char error[kErrorSize] = "";
    const int count = devices(found.data(), kMostGpus, error, sizeof error);
    if (count < 0) return {{}, str("CUDA says: ", error)};
    if (count == 0) return {{}, "CUDA finds no GPU"};
    GpuSearch search;
    for (int i = 0; i < std::min(count, kMostGpus); ++i) {
        const Sam3CudaDevice& gpu = found[static_cast<size_t>(i)];
        search.gpus.push_back({gpu.name, gpu.total_bytes, gpu.free_bytes, gpu.major, gpu.minor, gpu.multiprocessors});
    }
    return search;
}

std::shared_ptr<Device> make_cuda_device(int gpu) {
    static std::mutex mutex;
    static std::map<int, std::weak_ptr<Device>> devices;
    const std::lock_guard lock(mutex);
    if (std::shared_ptr<Device> known = devices[gpu].lock()) return known;
    const GpuSearch search = find_gpus();
    if (search.gpus.empty())
        fail("there is no GPU to run on: ", search.reason,
             ". `sam3 doctor` shows what there is; the device 'cpu' always works");
    if (gpu < 0 || gpu >= static_cast<int>(search.gpus.size()))
        fail("there is no GPU ", gpu, ": CUDA counts from 0 and finds ", search.gpus.size());
    std::shared_ptr<Device> device = open_gpu(gpu);
    devices[gpu] = device;
    return device;
}

}  // namespace sam3
