#include "host.h"

#include <sched.h>
#include <sys/utsname.h>
#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>

namespace sam3::cli {
namespace {

std::string trimmed(const std::string& text) {
    const size_t first = text.find_first_not_of(" \t\"");
    const size_t last = text.find_last_not_of(" \t\"");
    return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

// The value of "key <separator> value" in a file of such lines.
std::string value_in(const char* path, const std::string& key, char separator) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        const size_t at = line.find(separator);
        if (at != std::string::npos && trimmed(line.substr(0, at)) == key) return trimmed(line.substr(at + 1));
    }
    return "";
}

uint64_t memory_line(const char* path, const std::string& key) {
    std::istringstream value(value_in(path, key, ':'));
    uint64_t kibibytes = 0;
    value >> kibibytes;
    return kibibytes * 1024;
}

std::vector<std::string> cpu_features() {
    std::string flags = value_in("/proc/cpuinfo", "flags", ':');
    if (flags.empty()) flags = value_in("/proc/cpuinfo", "Features", ':');  // ARM
    std::istringstream words(flags);
    std::vector<std::string> present;
    for (std::string word; words >> word;) present.push_back(word);
    std::vector<std::string> out;
    for (const char* name :
         {"sse4_2", "avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16",
          "amx_int8", "amx_bf16", "asimd", "asimddp", "sve", "i8mm", "bf16"}) {
        if (std::find(present.begin(), present.end(), name) != present.end()) out.emplace_back(name);
    }
    return out;
}

int usable_threads() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

Host describe_host() {
    Host host;
    host.system = value_in("/etc/os-release", "PRETTY_NAME", '=');
    utsname kernel{};
    if (uname(&kernel) == 0) {
        if (!host.system.empty()) host.system += ", ";
        host.system += std::string(kernel.sysname) + " " + kernel.release + " " + kernel.machine;
    }
    host.cpu = value_in("/proc/cpuinfo", "model name", ':');
    host.features = cpu_features();
    host.threads = usable_threads();
    host.memory = memory_line("/proc/meminfo", "MemTotal");
    host.free_memory = memory_line("/proc/meminfo", "MemAvailable");
    return host;
}

uint64_t peak_resident_bytes() { return memory_line("/proc/self/status", "VmHWM"); }

}  // namespace sam3::cli
