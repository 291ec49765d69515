#include "engine/session_file.h"

#include "models/memory_tracker.h"
#include "util/error.h"
#include "weights/gguf_writer.h"

#include <cstring>

namespace sam3 {

namespace {

using Json = nlohmann::json;

constexpr const char* kArchitecture = "sam3-session";
constexpr int kVersion = 1;

// What must be the same for a session to go on: memories of another network mean nothing.
Json identity_of(const Model& model) {
    const MemoryConfig& memory = model.tracker().config();
    return {{"model", model.name()},
            {"behaviour", model.behaviour().name},
            {"image_size", model.image_size()},
            {"frames", memory.frames},
            {"channels", memory.channels},
            {"pointers", memory.pointers},
            {"layers", memory.layers},
            {"conditioning_frames", memory.conditioning_frames}};
}

WeightType weight_type(const Tensor& tensor, const std::string& name) {
    switch (tensor.dtype()) {
        case DType::f32: return WeightType::f32;
        case DType::bf16: return WeightType::bf16;
        default: fail("a session file cannot hold the tensor ", name, " of type ", name_of(tensor.dtype()));
    }
}

}  // namespace

SessionWriter::SessionWriter(const Model& model, std::string kind) {
    root_ = {{"kind", std::move(kind)}, {"belongs_to", identity_of(model)}, {"sections", Json::object()}};
}

void SessionWriter::put(const std::string& name, const Tensor& host) { tensors_[name] = host; }

void SessionWriter::put(const std::string& section, const Json& state) { root_["sections"][section] = state; }

void SessionWriter::save(const std::string& path) const {
    GgufWriter writer(path);
    writer.set("general.architecture", std::string(kArchitecture));
    writer.set("sam3.session.version", int32_t{kVersion});
    writer.set("sam3.session.state", root_.dump());
    for (const auto& [name, tensor] : tensors_) writer.declare(name, weight_type(tensor, name), tensor.shape());
    for (const auto& [name, tensor] : tensors_)
        writer.write_bytes(tensor.data<uint8_t>(), static_cast<size_t>(tensor.numel()) * size_of(tensor.dtype()));
    writer.finish();
}

SessionReader::SessionReader(const std::string& path, const Model& model, const std::string& kind)
    : file_(open_weight_file(path)) {
    const Metadata& metadata = file_->metadata();
    if (metadata.get_string("general.architecture", "") != kArchitecture)
        fail(path, ": expected a saved video session, found a ", file_->format(), " file that is not one");
    if (const int64_t version = metadata.get_int("sam3.session.version"); version != kVersion)
        fail(path, ": expected a session file of version ", kVersion, ", found version ", version,
             ": it was written by another version of this program");
    root_ = Json::parse(metadata.get_string("sam3.session.state"), nullptr, /*allow_exceptions=*/false);
    if (!root_.is_object() || !root_.contains("kind") || !root_.contains("belongs_to") || !root_.contains("sections") ||
        !root_["kind"].is_string() || !root_["belongs_to"].is_object())
        fail(path, ": the session file is damaged: its state cannot be read");
    if (root_["kind"] != kind)
        fail(path, ": expected a saved session of kind '", kind, "', found '", root_["kind"].get<std::string>(), "'");
    const Json expected = identity_of(model);
    for (const auto& [key, value] : expected.items())
        if (root_["belongs_to"].value(key, Json()) != value)
            fail(path, ": the session was saved with another model: its ", key, " is ",
                 root_["belongs_to"].value(key, Json()).dump(), ", this model's is ", value.dump());
}

const Json& SessionReader::state(const std::string& section) const {
    const auto found = root_["sections"].find(section);
    if (found == root_["sections"].end())
        fail(path(), ": the session file is damaged: it has no section '", section, "'");
    return *found;
}

Tensor SessionReader::tensor(const std::string& name) const {
    const WeightTensor* stored = file_->find(name);
    if (stored == nullptr) fail(path(), ": the session file is damaged: it has no tensor '", name, "'");
    if (stored->type != WeightType::f32 && stored->type != WeightType::bf16)
        fail(path(), ": the session file is damaged: the tensor '", name, "' is of type ", stored->type_name);
    Tensor tensor = Tensor::host(stored->shape, stored->type == WeightType::f32 ? DType::f32 : DType::bf16);
    std::memcpy(tensor.raw(), stored->data, stored->bytes);
    return tensor;
}

}  // namespace sam3
