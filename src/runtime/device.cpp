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

std::shared_ptr<Buffer> Device::allocate_host(size_t bytes) {
    return Tensor::host({static_cast<int64_t>(bytes)}, DType::u8).buffer();
}

Tensor Device::uploaded(const Tensor& host) {
    const size_t bytes = static_cast<size_t>(host.numel()) * size_of(host.dtype());
    Tensor copy(allocate(bytes), host.shape(), host.dtype());
    copy_from_host(copy.raw(), host.raw(), bytes);
    return copy;
}

std::vector<Tensor> Device::run_stage_aside(std::unique_ptr<StageCache>& cache, const std::string& key,
                                            const std::vector<Tensor>& host_inputs, const StageBody& body) {
    std::vector<Tensor> inputs;
    for (const Tensor& input : host_inputs) inputs.push_back(uploaded(input));
    return run_stage(cache, key, inputs, body);
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
