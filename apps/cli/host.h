#pragma once

#include <cstdint>
#include <string>
#include <vector>

// What the operating system says about this machine; empty or 0 where it says nothing.
namespace sam3::cli {

struct Host {
    std::string system;                 // "Debian GNU/Linux 12 (bookworm), Linux 6.1.0"
    std::string cpu;                    // "Intel(R) Xeon(R) ..."
    std::vector<std::string> features;  // instruction sets that matter here, as the kernel names them
    int threads = 0;                    // hardware threads that this process may use
    uint64_t memory = 0;                // bytes in the machine
    uint64_t free_memory = 0;           // bytes that can be had without swapping
};

Host describe_host();

// Most memory that this process has had at a time, in bytes; pages of mapped files count while they are resident.
uint64_t peak_resident_bytes();

}  // namespace sam3::cli
