#include "engine/model_writer.h"

#include "engine/model_registry.h"
#include "engine/model_vocabulary.h"
#include "models/configuration.h"
#include "util/error.h"
#include "util/sha256.h"
#include "weights/binder.h"
#include "weights/gguf_writer.h"
#include "weights/int8_codes.h"
#include "weights/name_maps_gguf.h"
#include "weights/quote_name.h"
#include "weights/type_policy.h"

#include <filesystem>
#include <future>
#include <vector>

namespace sam3 {

namespace {

constexpr uint32_t kFileVersion = 1;
constexpr const char* kSourceFormat = "sam3cpp.source.format";
constexpr const char* kSourceHash = "sam3cpp.source.sha256";

// What ggml's tools call a file whose large matrices have this type.
uint32_t file_type_number(WeightType type) {
    switch (type) {
        case WeightType::f32: return 0;
        case WeightType::f16: return 1;
        case WeightType::q4_0: return 2;
        case WeightType::q4_1: return 3;
        case WeightType::q8_0: return 7;
        case WeightType::q5_0: return 8;
        case WeightType::q5_1: return 9;
        case WeightType::q4_k: return 15;
        case WeightType::q5_k: return 17;
        case WeightType::q6_k: return 18;
        case WeightType::bf16: return 32;
        default: return 1024;  // guessed
    }
}

std::string text_of(const Metadata& metadata, const char* key) {
    const MetadataValue* value = metadata.find(key);
    const auto* text = value != nullptr ? std::get_if<std::string>(value) : nullptr;
    return text != nullptr ? *text : "";
}

// "license: apache-2.0" in the head of a model card.
std::string licence_of(const WeightFile& file) {
    const std::string own = text_of(file.metadata(), "general.license");
    const auto card = own.empty() ? file.side_file("README.md") : std::nullopt;
    if (!card || !card->starts_with("---")) return own;
    const std::string head = card->substr(0, card->find("\n---", 3));
    const size_t key = head.find("\nlicense:");
    if (key == std::string::npos) return own;
    const size_t begin = head.find_first_not_of(" \t", key + 9);
    const size_t end = head.find_first_of("\r\n", key + 9);
    return begin == std::string::npos || begin >= end ? own : head.substr(begin, end - begin);
}

std::string name_of_model(const WeightFile& file) {
    const std::string own = text_of(file.metadata(), "general.name");
    if (!own.empty()) return own;
    const auto path = std::filesystem::absolute(file.path()).lexically_normal();
    return (path.has_filename() ? path : path.parent_path()).stem().string();
}

// Of the weight files in their order, as sha256sum gives it for one file.
std::string sha256_of(const std::shared_ptr<const WeightFile>& file) {
    Sha256 hash;
    for (const auto& mapping : file->mappings()) {
        constexpr size_t kStep = size_t{64} << 20;
        for (size_t at = 0; at < mapping->size(); at += kStep) {
            const size_t bytes = std::min(kStep, mapping->size() - at);
            hash.add(mapping->data() + at, bytes);
            mapping->release(mapping->data() + at, bytes);
        }
    }
    return hash.hex();
}

struct OutputTensor {
    std::string canonical;
    Shape shape;  // as it is written
    WeightType type = WeightType::f32;
    std::optional<WeightTensor> source;        // whose bytes can be copied or were one tensor
    std::optional<OutputChannels> channels{};  // that int8 codes have scales for
};

// A convolution's kernels as rows of a matrix, long enough for blocks.
Shape flattened(const Shape& shape) {
    if (shape.rank() <= 2 || shape[0] == 0) return shape;
    return {shape[0], shape.numel() / shape[0]};
}

// Whether a type shares scales among its values, so that making it from another such one loses twice.
bool has_codes(WeightType type) { return is_quantized(type) || type == WeightType::i8; }

WeightType type_for(const WriteModelOptions& options, const OutputTensor& tensor, bool int8_layer) {
    const bool coded = tensor.source && has_codes(tensor.source->type);
    // Around int8 layers the rest stays as it is, or f16: what the network computes there must not change.
    const bool as_it_is = !options.type || (options.type == WeightType::i8 && !int8_layer);
    if (as_it_is)
        return coded ? tensor.source->type : stored_type(tensor.canonical, flattened(tensor.shape), WeightType::f16);
    const WeightType type = int8_layer && options.type == WeightType::i8
                                ? WeightType::i8
                                : stored_type(tensor.canonical, flattened(tensor.shape), *options.type);
    if (coded && has_codes(type) && type != tensor.source->type && !options.requantize)
        fail(options.input, ": ", quote_name(tensor.canonical), " is ", name_of(tensor.source->type),
             " already; making ", name_of(type),
             " of it loses precision twice: convert from the original weights, or allow it with --requantize");
    return type;
}

OutputTensor output_tensor(const WriteModelOptions& options, const NetworkPlan& plan, WeightLoader& loader,
                           const std::string& name) {
    OutputTensor tensor{name, *loader.shape_of(name), WeightType::f32, loader.stored(name)};
    const auto layer = plan.int8_layers.find(name);
    tensor.type = type_for(options, tensor, layer != plan.int8_layers.end());
    if (is_quantized(tensor.type)) tensor.shape = flattened(tensor.shape);
    if (tensor.type != WeightType::i8) return tensor;
    if (const std::optional<WeightTensor> scales = loader.stored_scales(name)) {
        tensor.channels = int8_channels(tensor.shape, scales->shape);
    } else {
        tensor.shape = layer->second.shape;
        tensor.channels = layer->second.channels;
    }
    return tensor;
}

void declare(GgufWriter& writer, const OutputTensor& tensor, const std::string& architecture) {
    const std::string name = gguf_name(tensor.canonical, architecture);
    writer.declare(name, tensor.type, tensor.shape);
    if (tensor.channels)
        writer.declare(int8_scale_name(name), WeightType::f32, int8_scale_shape(tensor.shape, *tensor.channels));
}

void set_all(GgufWriter& writer, const Metadata& metadata) {
    for (const auto& [key, value] : metadata.entries()) writer.set(key, value);
}

// The path of a file that is to be replaced must not be one that is being read.
void require_other_file(const WeightFile& input, const std::string& output) {
    std::error_code ignored;
    for (const auto& mapping : input.mappings())
        if (std::filesystem::equivalent(mapping->path(), output, ignored))
            fail(output, ": the output would replace the input: give another name");
}

void write_tensor(const OutputTensor& tensor, WeightLoader& loader, GgufWriter& writer) {
    if (tensor.source && tensor.source->type == tensor.type) {
        writer.write_bytes(tensor.source->data, tensor.source->bytes);
        if (const auto scales = loader.stored_scales(tensor.canonical)) writer.write_bytes(scales->data, scales->bytes);
        loader.file().release(*tensor.source);
        return;
    }
    const Tensor values = loader.root().tensor(tensor.canonical, *loader.shape_of(tensor.canonical));
    if (!tensor.channels) {
        writer.write_f32(values.data<float>(), static_cast<size_t>(values.numel()));
        return;
    }
    const Int8Codes coded = encode_int8(values.data<float>(), tensor.shape, *tensor.channels);
    writer.write_bytes(reinterpret_cast<const uint8_t*>(coded.codes.data()), coded.codes.size());
    writer.write_bytes(reinterpret_cast<const uint8_t*>(coded.scales.data()), coded.scales.size() * sizeof(float));
}

void add_to_report(WriteModelReport& report, WeightType type, const Shape& shape) {
    for (WriteModelReport::Total* sum : {&report.types[std::string(name_of(type))], &report.written}) {
        sum->tensors += 1;
        sum->bytes += *checked_bytes(type, shape);
    }
}

void write_tensors(const WriteModelOptions& options, const std::vector<OutputTensor>& tensors, WeightLoader& loader,
                   GgufWriter& writer, WriteModelReport& report) {
    uint64_t total = 0, done = 0;
    for (const OutputTensor& tensor : tensors) total += static_cast<uint64_t>(tensor.shape.numel());
    for (const OutputTensor& tensor : tensors) {
        if (options.progress) options.progress(done, total);
        write_tensor(tensor, loader, writer);
        done += static_cast<uint64_t>(tensor.shape.numel());
        add_to_report(report, tensor.type, tensor.shape);
        if (tensor.channels) add_to_report(report, WeightType::f32, int8_scale_shape(tensor.shape, *tensor.channels));
    }
}

}  // namespace

WriteModelReport write_model(const WriteModelOptions& options) {
    const std::shared_ptr<const WeightFile> file = open_weight_file(options.input);
    require_other_file(*file, options.output);
    NetworkOptions network;
    network.parts.concepts = !options.visual_only;
    const NetworkPlan plan = plan_network(file, network);
    WeightLoader loader(file, *plan.names);

    std::vector<OutputTensor> tensors;
    for (const std::string& name : plan.tensors) tensors.push_back(output_tensor(options, plan, loader, name));

    WriteModelReport report;
    GgufWriter writer(options.output);
    report.licence = options.licence.empty() ? licence_of(*file) : options.licence;
    writer.set("general.architecture", plan.architecture);
    writer.set("general.type", std::string("model"));
    writer.set("general.name", options.name.empty() ? name_of_model(*file) : options.name);
    if (!report.licence.empty()) writer.set("general.license", report.licence);
    writer.set("general.file_type", file_type_number(options.type.value_or(WeightType::f16)));
    writer.set("general.quantization_version", uint32_t{2});
    writer.set(kGgufVersionKey, kFileVersion);
    // The hash of the first weights stays with all files that are made from them.
    const std::string known_hash = text_of(file->metadata(), kSourceHash);
    const std::string known_format = text_of(file->metadata(), kSourceFormat);
    writer.set(kSourceFormat, known_format.empty() ? file->format() : known_format);
    writer.set(kSourceHash, known_hash.empty() ? std::string(64, '0') : known_hash);
    set_all(writer, configuration_to_metadata(*plan.configuration, plan.architecture));
    const auto vocabulary = options.visual_only ? std::nullopt : vocabulary_of(*file);
    if (vocabulary) set_all(writer, vocabulary_to_metadata(*vocabulary));
    report.tokenizer = vocabulary.has_value();
    for (const OutputTensor& tensor : tensors) declare(writer, tensor, plan.architecture);

    std::future<std::string> hash;
    if (known_hash.empty()) hash = std::async(std::launch::async, sha256_of, file);
    write_tensors(options, tensors, loader, writer, report);
    if (hash.valid()) writer.replace_text(kSourceHash, hash.get());
    writer.finish();
    return report;
}

}  // namespace sam3
