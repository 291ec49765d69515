#include "command.h"
#include "engine/device_choice.h"
#include "host.h"
#include "media/versions.h"
#include "runtime/cpu/version.h"
#include "runtime/device.h"
#include "runtime/gpu.h"
#include "sam3.h"
#include "util/error.h"

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

namespace sam3::cli {
namespace {

struct Findings {
    Host host;
    std::vector<std::string> gpus;  // or why there are none
    std::string device;             // what commands take when no --device is given, and how it computes
    std::vector<std::pair<std::string, std::string>> libraries;
    std::vector<std::string> advice;  // what makes this machine slower than it need be
};

Findings examine() {
    Findings found;
    found.host = describe_host();
    const GpuSearch search = find_gpus();
    for (const Gpu& gpu : search.gpus)
        found.gpus.push_back(gpu.name + ", " + pretty_size(gpu.total_bytes) + ", " + pretty_size(gpu.free_bytes) +
                             " free, compute capability " + std::to_string(gpu.major) + "." +
                             std::to_string(gpu.minor));
    if (search.gpus.empty()) found.gpus.push_back("none: " + search.reason);
    try {
        const DeviceChoice choice = choose_device("auto");
        found.device = choice.device->name() + ", " + name_of(choice.device->usual_precision());
        if (!search.gpus.empty() && !choice.why_no_gpu.empty()) found.advice.push_back(choice.why_no_gpu);
    } catch (const Error& problem) {  // SAM3_DEVICE names what is not there
        found.device = std::string("none: ") + problem.what();
    }
    found.libraries = {{"CPU kernels", cpu_kernels()}, {"OpenMP", std::to_string(openmp_threads()) + " threads"}};
    for (auto& library : media_library_versions()) found.libraries.push_back(std::move(library));

    const auto has = [&](const char* feature) {
        const auto& features = found.host.features;
        return std::find(features.begin(), features.end(), feature) != features.end();
    };
    if (!found.host.features.empty() && !has("avx2") && !has("asimd")) {
        found.advice.emplace_back("this CPU has no AVX2: everything runs, several times slower");
    }
    if (openmp_threads() < found.host.threads) {
        found.advice.push_back("OpenMP uses " + std::to_string(openmp_threads()) + " of " +
                               std::to_string(found.host.threads) + " hardware threads: is OMP_NUM_THREADS set?");
    }
    return found;
}

void print_text(const Findings& found) {
    const auto line = [](const std::string& name, const std::string& value) {
        std::cout << std::left << std::setw(14) << name << value << "\n";
    };
    std::string features;
    for (const auto& feature : found.host.features) features += (features.empty() ? "" : " ") + feature;
    line("sam3", sam3_version());
    line("system", found.host.system);
    line("CPU", found.host.cpu.empty() ? "unknown" : found.host.cpu);
    line("instructions", features.empty() ? "unknown" : features);
    line("threads", std::to_string(found.host.threads));
    line("memory", pretty_size(found.host.memory) + ", " + pretty_size(found.host.free_memory) + " free");
    for (const auto& gpu : found.gpus) line("GPU", gpu);
    line("device", found.device);
    for (const auto& [name, version] : found.libraries) line(name, version);
    for (const auto& advice : found.advice) line("note", advice);
}

void print_json(const Findings& found) {
    nlohmann::ordered_json out;
    out["version"] = sam3_version();
    out["system"] = found.host.system;
    out["cpu"] = found.host.cpu;
    out["instructions"] = found.host.features;
    out["threads"] = found.host.threads;
    out["memory"] = found.host.memory;
    out["free_memory"] = found.host.free_memory;
    out["gpus"] = found.gpus;
    out["device"] = found.device;
    for (const auto& [name, version] : found.libraries) out["libraries"][name] = version;
    out["notes"] = found.advice;
    std::cout << out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
}

}  // namespace

void add_doctor(CLI::App& program, Action& chosen) {
    CLI::App* command = program.add_subcommand("doctor", "Show what this machine and this build offer");
    const auto json = std::make_shared<bool>(false);
    command->add_flag("--json", *json, "Print JSON");
    command->footer(
        "Examples:\n"
        "  sam3 doctor\n"
        "  sam3 doctor --json > report.json     to attach to a bug report");
    command->callback([json, &chosen] { chosen = [json] { *json ? print_json(examine()) : print_text(examine()); }; });
}

}  // namespace sam3::cli
