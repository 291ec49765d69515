#include "runtime/device.h"

#include "util/error.h"

#include <array>

namespace sam3 {

namespace {

struct NamedPrecision {
    const char* name;
    Precision precision;
};
constexpr std::array kPrecisions = {NamedPrecision{"f32", Precision::f32}, NamedPrecision{"bf16", Precision::bf16},
                                    NamedPrecision{"int8", Precision::int8}, NamedPrecision{"fp8", Precision::fp8}};

}  // namespace

const char* name_of(Precision precision) {
    for (const NamedPrecision& known : kPrecisions)
        if (known.precision == precision) return known.name;
    return "?";
}

Precision precision_named(const std::string& name) {
    for (const NamedPrecision& known : kPrecisions)
        if (name == known.name) return known.precision;
    fail("there is no precision '", name, "': f32, bf16, int8 and fp8 are known");
}

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
