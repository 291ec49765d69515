#include "engine/device_choice.h"

#include "runtime/gpu.h"
#include "util/error.h"

#include <charconv>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string_view>

namespace sam3 {

namespace {

constexpr std::string_view kCuda = "cuda";

bool is_automatic(const std::string& name) { return name.empty() || name == "auto"; }

// The number in "cuda:1"; 0 for "cuda"; empty for anything else.
std::optional<int> gpu_number(std::string_view name) {
    if (name == kCuda) return 0;
    if (!name.starts_with(kCuda) || !name.substr(kCuda.size()).starts_with(':')) return {};
    const std::string_view digits = name.substr(kCuda.size() + 1);
    int number = 0;
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    const bool whole = problem == std::errc() && end == digits.data() + digits.size() && number >= 0;
    return whole ? std::optional(number) : std::nullopt;
}

// A GPU that cannot be used, for whatever reason, must not keep a program from running that did not ask for it.
DeviceChoice first_gpu_or_cpu() {
    try {
        return {make_cuda_device(0), ""};
    } catch (const std::exception& problem) {
        return {make_cpu_device(), problem.what()};
    }
}

}  // namespace

bool is_device_name(const std::string& name) {
    return is_automatic(name) || name == "cpu" || gpu_number(name).has_value();
}

DeviceChoice choose_device(const std::string& name) {
    if (is_automatic(name)) {
        const char* usual = std::getenv("SAM3_DEVICE");
        return usual == nullptr || is_automatic(usual) ? first_gpu_or_cpu() : choose_device(usual);
    }
    if (name == "cpu") return {make_cpu_device(), ""};
    if (const std::optional<int> gpu = gpu_number(name)) return {make_cuda_device(*gpu), ""};
    fail("there is no device '", name, "': auto, cpu, cuda and cuda:N with a GPU's number N are known");
}

Precision choose_precision(const Device& device, const std::string& name, bool stored_in_int8) {
    if (is_automatic(name))
        return stored_in_int8 && device.has_precision(Precision::int8) ? Precision::int8 : device.usual_precision();
    const Precision precision = precision_named(name);
    if (device.has_precision(precision)) return precision;
    std::string known;
    for (const Precision other : {Precision::f32, Precision::bf16, Precision::int8, Precision::fp8})
        if (device.has_precision(other)) known += (known.empty() ? "" : ", ") + std::string(name_of(other));
    fail("the device ", device.name(), " does not compute in ", name, ": it has ", known);
}

}  // namespace sam3
