#include "command.h"
#include "engine/model.h"
#include "engine/model_registry.h"
#include "util/error.h"
#include "weights/name_map.h"
#include "weights/weight_file.h"

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

namespace sam3::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShownItems = 8;   // of an array in the metadata
constexpr size_t kShownText = 100;  // characters of a text in the metadata

struct Options {
    std::string path;
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

bool has_tokenizer(const WeightFile& file) {
    return file.side_path("tokenizer.json") || (file.side_path("vocab.json") && file.side_path("merges.txt")) ||
           file.side_path("bpe_simple_vocab_16e6.txt.gz") || file.metadata().has("tokenizer.ggml.merges");
}

// What a user would trip over later: said here without loading the weights; --check loads them.
void find_missing(Report& report, const Options& options) {
    const WeightFile& file = *report.file;
    const NameMap* names = nullptr;
    try {
        names = &name_map_of(file);
        report.model = names->name;
    } catch (const Error& error) {
        report.missing.emplace_back(error.what());
        return;
    }
    if (!has_tokenizer(file)) {
        report.missing.emplace_back(
            "no tokenizer beside the weights: phrases need tokenizer.json, or vocab.json with "
            "merges.txt, or bpe_simple_vocab_16e6.txt.gz in that folder");
    }
    for (const auto& tensor : file.tensors()) {
        // Meta's files hold complex rotary tables that nothing asks for.
        if (tensor.type == WeightType::unsupported && !map_name(*names, tensor.name).empty()) {
            report.missing.push_back("tensor '" + tensor.name + "' has the type " + type_of(tensor) +
                                     ", which cannot be read");
        }
    }
    if (!options.check) return;
    try {
        Model::load({.path = options.path, .behaviour = "", .image_size = 0});
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
    find_missing(report, options);
    return report;
}

Json to_json(const MetadataArray& array, size_t limit) {
    return std::visit(
        [&](const auto& items) {
            Json out = Json::array();
            for (size_t i = 0; i < items.size() && i < limit; ++i) {
                using Item = typename std::decay_t<decltype(items)>::value_type;
                if constexpr (std::is_same_v<Item, MetadataArray>) {
                    out.push_back("array of " + std::to_string(items[i].size()));  // nested: only named
                } else {
                    out.push_back(static_cast<Item>(items[i]));
                }
            }
            return out;
        },
        array.items);
}

Json to_json(const MetadataValue& value, size_t limit) {
    return std::visit(
        [&](const auto& held) -> Json {
            if constexpr (std::is_same_v<std::decay_t<decltype(held)>, MetadataArray>) {
                return to_json(held, limit);
            } else {
                return held;
            }
        },
        value);
}

std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string metadata_text(const MetadataValue& value) {
    if (const auto* text = std::get_if<std::string>(&value)) {
        if (text->size() <= kShownText) return printable(*text);
        return printable(text->substr(0, kShownText)) + "... (" + pretty_size(text->size()) + ")";
    }
    const auto* array = std::get_if<MetadataArray>(&value);
    std::string out = printable(dump(to_json(value, kShownItems)));
    if (array != nullptr && array->size() > kShownItems) {
        out.back() = ',';
        out += " ...] (" + pretty_count(array->size()) + ")";
    }
    return out;
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
    if (report.missing.empty()) line("missing", options.check ? "nothing: the model loads" : "nothing seen");
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
        out["metadata"][key] = to_json(value, std::numeric_limits<size_t>::max());
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
    command->add_flag("--json", options->json, "Print JSON");
    command->add_flag("--check", options->check, "Load the model as well and say what is missing or mis-shaped");
    command->footer(
        "Examples:\n"
        "  sam3 inspect model.gguf\n"
        "  sam3 inspect sam3.pt --tensors | less\n"
        "  sam3 inspect sam3/ --json --check");
    command->callback([options, &chosen] {
        chosen = [options] {
            const Report report = examine(*options);
            options->json ? print_json(report, *options) : print_text(report, *options);
        };
    });
}

}  // namespace sam3::cli
