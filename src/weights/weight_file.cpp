#include "weights/weight_file.h"

#include "util/error.h"
#include "weights/file_kind.h"
#include "weights/ggml_file.h"
#include "weights/gguf.h"
#include "weights/hf_folder.h"
#include "weights/quote_name.h"
#include "weights/safetensors.h"
#include "weights/torch_file.h"

#include <algorithm>
#include <filesystem>

namespace sam3 {

namespace fs = std::filesystem;

WeightFile::WeightFile(WeightFileContents contents) : contents_(std::move(contents)) {
    index_.reserve(contents_.tensors.size());
    for (size_t i = 0; i < contents_.tensors.size(); ++i) index_.emplace(contents_.tensors[i].name, i);
}

const WeightTensor* WeightFile::find(std::string_view name) const {
    const auto found = index_.find(name);
    return found == index_.end() ? nullptr : &contents_.tensors[found->second];
}

std::optional<std::string> WeightFile::side_path(std::string_view name) const {
    if (contents_.side_folder.empty()) return std::nullopt;
    const fs::path path = fs::path(contents_.side_folder) / name;
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) return std::nullopt;
    return path.string();
}

std::optional<std::string> WeightFile::side_file(std::string_view name, size_t max_bytes) const {
    const std::optional<std::string> path = side_path(name);
    if (!path) return std::nullopt;
    const MappedFile file(*path);
    if (file.size() > max_bytes)
        fail(*path, " has ", file.size(), " bytes, more than the ", max_bytes, " that such a file may have");
    return std::string(reinterpret_cast<const char*>(file.data()), file.size());
}

void WeightFile::prefetch(const WeightTensor& tensor) const {
    for (const std::shared_ptr<const MappedFile>& mapping : contents_.mappings)
        if (mapping->contains(tensor.data)) mapping->prefetch(tensor.data, tensor.bytes);
}

void WeightFile::release(const WeightTensor& tensor) const {
    for (const std::shared_ptr<const MappedFile>& mapping : contents_.mappings)
        if (mapping->contains(tensor.data)) mapping->release(tensor.data, tensor.bytes);
}

void WeightFile::release() const {
    for (const std::shared_ptr<const MappedFile>& mapping : contents_.mappings)
        mapping->release(mapping->data(), mapping->size());
}

std::shared_ptr<const WeightFile> open_weight_file(const std::string& path) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) return std::make_shared<WeightFile>(open_hf_folder(path));
    auto file = std::make_shared<const MappedFile>(path);
    switch (identify_weights(file->data(), file->size())) {
        case FileKind::safetensors: return std::make_shared<WeightFile>(open_safetensors(std::move(file)));
        case FileKind::gguf: return std::make_shared<WeightFile>(open_gguf(std::move(file)));
        case FileKind::torch: return std::make_shared<WeightFile>(open_torch_file(std::move(file)));
        case FileKind::ggml: return std::make_shared<WeightFile>(open_ggml_file(std::move(file)));
        case FileKind::other: break;
    }
    fail(describe_foreign_file(file->data(), file->size(), path));
}

void require_no_overlap(const std::vector<WeightTensor>& tensors, const std::string& path) {
    std::vector<const WeightTensor*> order;
    for (const WeightTensor& tensor : tensors)
        if (tensor.bytes > 0) order.push_back(&tensor);
    std::sort(order.begin(), order.end(),
              [](const WeightTensor* a, const WeightTensor* b) { return a->data < b->data; });
    for (size_t i = 1; i < order.size(); ++i)
        if (order[i]->data < order[i - 1]->data + order[i - 1]->bytes)
            fail(path, ": the tensors ", quote_name(order[i - 1]->name), " and ", quote_name(order[i]->name),
                 " overlap; the file is damaged");
}

}  // namespace sam3
