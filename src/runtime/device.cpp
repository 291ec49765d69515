#include "runtime/device.h"

#include "util/error.h"

namespace sam3 {

std::vector<std::string> KernelTable::missing() const {
    std::vector<std::string> names;
#define SAM3_KERNEL(name, Args) \
    if ((name) == nullptr) names.emplace_back(#name);
    SAM3_FOR_EACH_KERNEL(SAM3_KERNEL)
#undef SAM3_KERNEL
    return names;
}

void require_all_operators(const Device& device) {
    const std::vector<std::string> names = device.kernels().missing();
    if (names.empty()) return;
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    fail("the device '", device.name(), "' does not implement: ", list);
}

}  // namespace sam3
