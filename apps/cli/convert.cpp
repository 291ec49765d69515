#include "command.h"
#include "engine/model_writer.h"
#include "status.h"
#include "util/error.h"
#include "weights/type_policy.h"
#include "weights/weight_file.h"

#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>

namespace sam3::cli {
namespace {

struct Options {
    WriteModelOptions write;
    std::string type;
    bool overwrite = false, quiet = false;
};

uint64_t size_of_input(const std::string& path) {
    const std::shared_ptr<const WeightFile> file = open_weight_file(path);
    uint64_t bytes = 0;
    for (const auto& mapping : file->mappings()) bytes += mapping->size();
    return bytes;
}

void print_report(const Options& options, const WriteModelReport& report) {
    std::cout << options.write.output << ": " << pretty_count(static_cast<uint64_t>(report.written.tensors))
              << " tensors";
    const char* separator = " (";
    for (const auto& [type, total] : report.types) {
        std::cout << separator << total.tensors << " " << type;
        separator = ", ";
    }
    const uint64_t before = size_of_input(options.write.input);
    const uint64_t after = std::filesystem::file_size(options.write.output);
    std::cout << "), " << pretty_size(after) << ", " << std::fixed << std::setprecision(1)
              << 100.0 * static_cast<double>(after) / static_cast<double>(before) << " % of the input's "
              << pretty_size(before) << "\n";
    if (options.write.visual_only)
        std::cout
            << "kept: image encoder, clicks, boxes and masks, memory for videos; left out: text tower, detector\n";
    else if (!report.tokenizer)
        std::cerr << "sam3: no tokenizer was found beside " << options.write.input
                  << ": the file answers exemplars and clicks, but no text\n";
    if (report.licence.empty())
        std::cerr << "sam3: the licence of these weights is unknown; --license keeps it in the file\n";
}

void run(Options options) {
    if (!options.type.empty()) options.write.type = weight_type_by_name(options.type);
    if (!options.overwrite && std::filesystem::exists(options.write.output))
        fail(options.write.output, ": exists already; --overwrite replaces it");
    Status status(options.quiet);
    status.show("reading " + options.write.input);
    options.write.progress = [&](uint64_t done, uint64_t total) {
        status.show(str("writing ", options.write.output, ": ", 100 * done / std::max<uint64_t>(total, 1), " %"));
    };
    const WriteModelReport report = write_model(options.write);
    status.clear();
    if (!options.quiet) print_report(options, report);
}

std::shared_ptr<Options> add_common(CLI::App& command, const std::string& input_help, bool type_required) {
    auto options = std::make_shared<Options>();
    command.add_option("IN", options->write.input, input_help)->required();
    command.add_option("OUT", options->write.output, "The GGUF file to write")->required();
    std::vector<std::string> types;
    for (const std::string_view name : writable_type_names()) types.emplace_back(name);
    CLI::Option* type = command.add_option("-t,--type", options->type, "Type of the large matrices")
                            ->check(CLI::IsMember(types, CLI::ignore_case));
    if (type_required) type->required();
    command.add_flag("--requantize", options->write.requantize,
                     "Allow blocks or int8 codes to be made from others, which loses precision twice");
    command.add_flag("--overwrite", options->overwrite, "Replace OUT if it exists");
    command.add_flag("-q,--quiet", options->quiet, "No report, no progress");
    return options;
}

}  // namespace

void add_convert(CLI::App& program, Action& chosen) {
    CLI::App* command = program.add_subcommand("convert", "Write a model as one GGUF file that holds all it needs");
    const auto options = add_common(*command, "Any model file: a Hugging Face folder, .safetensors, .pt, .ggml, .gguf",
                                    /*type_required=*/false);
    command->add_flag("--visual-only", options->write.visual_only,
                      "Leave out the text tower and the detector: clicks, boxes, masks and videos remain");
    command->add_option("--name", options->write.name, "Name of the model (default: the input's)");
    command->add_option("--license", options->write.licence, "Licence of the weights (default: what the input says)");
    command->footer(
        "Without --type matrices become f16, and quantised ones stay as they are.\n"
        "Norms, biases, small embeddings and heads keep more precision: docs/gguf.md.\n"
        "int8 holds large layers ready for --precision int8, which is then the model's default.\n"
        "Examples:\n"
        "  sam3 convert sam3/ sam3-f16.gguf\n"
        "  sam3 convert sam3.pt sam3-q8_0.gguf --type q8_0\n"
        "  sam3 convert sam3/ sam3-visual-q4_0.gguf --visual-only --type q4_0");
    command->callback([options, &chosen] { chosen = [options] { run(*options); }; });
}

void add_quantize(CLI::App& program, Action& chosen) {
    CLI::App* command = program.add_subcommand("quantize", "Make a GGUF model smaller");
    const auto options = add_common(*command, "A model as a GGUF file", /*type_required=*/true);
    command->footer(
        "Blocks are bit for bit those of ggml's quantisers. Sizes and losses of every type: docs/gguf.md.\n"
        "Examples:\n"
        "  sam3 quantize sam3-f16.gguf sam3-q8_0.gguf --type q8_0\n"
        "  sam3 quantize sam3-f16.gguf sam3-q4_k.gguf --type q4_k\n"
        "  sam3 quantize sam3-f16.gguf sam3-int8.gguf --type int8     # runs in int8 by default, loads fastest");
    command->callback([options, &chosen] {
        chosen = [options] {
            const std::string format = open_weight_file(options->write.input)->format();
            if (format != "GGUF")
                fail(options->write.input, ": expected a GGUF file, found a ", format, ": use `sam3 convert`");
            run(*options);
        };
    });
}

}  // namespace sam3::cli
