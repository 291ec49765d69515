#include "command.h"
#include "engine/model_registry.h"
#include "engine/model_vocabulary.h"
#include "inspect_diff.h"
#include "metadata_text.h"
#include "util/error.h"
#include "weights/metadata_json.h"
#include "weights/name_map.h"
#include "weights/weight_file.h"

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

namespace sam3::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
    std::string path, other;
    bool json = false;
    bool tensors = false;
    bool check = false;
};

struct TypeTotal {
    uint64_t tensors = 0, values = 0, bytes = 0;
};

struct Report {
    std::shared_ptr<const WeightFile> file;
    std::map<std::string, TypeTotal> types;
    TypeTotal total;
    std::string model;                 // empty: not recognised
    std::vector<std::string> missing;  // sentences
};

std::string type_of(const WeightTensor& tensor) {
    const bool known = tensor.type != WeightType::unsupported;
    return known || tensor.type_name.empty() ? std::string(name_of(tensor.type)) : tensor.type_name;
}

void add_to(TypeTotal& total, const WeightTensor& tensor) {
    total.tensors += 1;
    total.values += static_cast<uint64_t>(checked_numel(tensor.shape).value_or(0));
    total.bytes += tensor.bytes;
}

// What a user would trip over later. Nothing is read but names and shapes.
void find_missing(Report& report) {
    const WeightFile& file = *report.file;
    const NameMap* names = nullptr;
    try {
        names = &name_map_of(file);
        report.model = names->name;
    } catch (const Error& error) {
        report.missing.emplace_back(error.what());
        return;
    }
    for (const auto& tensor : file.tensors()) {
        // Meta's files hold complex rotary tables that nothing asks for.
        if (tensor.type == WeightType::unsupported && !map_name(*names, tensor.name).empty()) {
            report.missing.push_back("tensor '" + tensor.name + "' has the type " + type_of(tensor) +
                                     ", which cannot be read");
        }
    }
    try {
        const NetworkPlan plan = plan_network(report.file, {});
        const bool reads_text = std::any_of(plan.tensors.begin(), plan.tensors.end(), [](const std::string& name) {
            return name.find(".token_embedding.") != std::string::npos;
        });
        if (reads_text && !has_vocabulary(file))
            report.missing.emplace_back(
                "no tokenizer beside the weights: phrases need tokenizer.json, or vocab.json with "
                "merges.txt, or bpe_simple_vocab_16e6.txt.gz in that folder");
    } catch (const Error& error) {
        report.missing.emplace_back(error.what());
    }
}

Report examine(const Options& options) {
    Report report;
    report.file = open_weight_file(options.path);
    for (const auto& tensor : report.file->tensors()) {
        add_to(report.types[type_of(tensor)], tensor);
        add_to(report.total, tensor);
    }
    find_missing(report);
    return report;
}

std::string shape_text(const Shape& shape) {
    std::string out = "[";
    for (const int64_t side : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(side);
    return out + "]";
}

void print_tensors(const WeightFile& file) {
    size_t width = 0;
    for (const auto& tensor : file.tensors()) width = std::max(width, printable(tensor.name).size());
    for (const auto& tensor : file.tensors()) {
        std::cout << std::left << std::setw(static_cast<int>(std::min<size_t>(width, 100)) + 2)
                  << printable(tensor.name) << std::setw(6) << type_of(tensor) << std::right << std::setw(10)
                  << pretty_size(tensor.bytes) << "  " << shape_text(tensor.shape) << "\n";
    }
}

void print_text(const Report& report, const Options& options) {
    const WeightFile& file = *report.file;
    const auto line = [](const char* name, const std::string& value) {
        std::cout << std::left << std::setw(12) << name << value << "\n";
    };
    line("file", printable(file.path()));
    line("format", file.format());
    line("model", report.model.empty() ? "not recognised" : report.model);
    line("tensors", pretty_count(report.total.tensors) + ", " + pretty_count(report.total.values) + " values, " +
                        pretty_size(report.total.bytes));
    for (const auto& [type, total] : report.types) {
        line("", type + ": " + pretty_count(total.tensors) + " tensors, " + pretty_size(total.bytes));
    }
    for (const char* name :
         {"config.json", "tokenizer.json", "vocab.json", "merges.txt", "bpe_simple_vocab_16e6.txt.gz"}) {
        if (const auto path = file.side_path(name)) line("beside it", printable(*path));
    }
    for (const auto& [key, value] : file.metadata().entries()) {
        line("metadata", printable(key) + " = " + metadata_text(value));
    }
    for (const auto& sentence : report.missing) line("missing", printable(sentence));
    if (report.missing.empty()) line("missing", "nothing: the model is complete");
    if (options.tensors) {
        std::cout << "\n";
        print_tensors(file);
    }
}

void print_json(const Report& report, const Options& options) {
    const WeightFile& file = *report.file;
    Json out;
    out["file"] = file.path();
    out["format"] = file.format();
    out["model"] = report.model.empty() ? Json() : Json(report.model);
    out["tensor_count"] = report.total.tensors;
    out["values"] = report.total.values;
    out["bytes"] = report.total.bytes;
    for (const auto& [type, total] : report.types) {
        out["types"][type] = {{"tensors", total.tensors}, {"values", total.values}, {"bytes", total.bytes}};
    }
    out["metadata"] = Json::object();
    for (const auto& [key, value] : file.metadata().entries()) {
        out["metadata"][key] = to_json(value);
    }
    out["missing"] = report.missing;
    if (options.tensors) {
        out["tensors"] = Json::array();
        for (const auto& tensor : file.tensors()) {
            const std::vector<int64_t> shape(tensor.shape.begin(), tensor.shape.end());
            out["tensors"].push_back(
                {{"name", tensor.name}, {"type", type_of(tensor)}, {"shape", shape}, {"bytes", tensor.bytes}});
        }
    }
    std::cout << out.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

}  // namespace

void add_inspect(CLI::App& program, Action& chosen) {
    CLI::App* command = program.add_subcommand("inspect", "Show what a weight file holds");
    const auto options = std::make_shared<Options>();
    command
        ->add_option("FILE", options->path, "A .pt, .pth, .safetensors, .gguf or .ggml file, or a Hugging Face folder")
        ->required();
    command->add_flag("--tensors", options->tensors, "List every tensor with its type, size and shape");
    command->add_option("--diff", options->other, "Compare with this file: metadata, tensors, values");
    command->add_flag("--json", options->json, "Print JSON");
    command->add_flag("--check", options->check, "Fail when something is missing or mis-shaped");
    command->footer(
        "Examples:\n"
        "  sam3 inspect model.gguf\n"
        "  sam3 inspect sam3.pt --tensors | less\n"
        "  sam3 inspect sam3/ --json --check\n"
        "  sam3 inspect sam3-f16.gguf --diff sam3-q8_0.gguf");
    command->callback([options, &chosen] {
        chosen = [options] {
            if (!options->other.empty()) return print_difference(options->path, options->other, options->json);
            const Report report = examine(*options);
            options->json ? print_json(report, *options) : print_text(report, *options);
            if (options->check && !report.missing.empty()) fail(options->path, ": the model is not complete");
        };
    });
}

}  // namespace sam3::cli
