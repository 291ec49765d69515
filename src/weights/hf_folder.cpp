#include "weights/hf_folder.h"

#include "util/error.h"
#include "weights/file_kind.h"
#include "weights/json_text.h"
#include "weights/quote_name.h"
#include "weights/safetensors.h"
#include "weights/torch_file.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <unordered_map>

namespace sam3 {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxIndexBytes = size_t{64} << 20;
constexpr size_t kMaxShards = 1024;

WeightFileContents open_part(const fs::path& path) {
    auto file = std::make_shared<const MappedFile>(path.string());
    switch (identify_weights(file->data(), file->size())) {
        case FileKind::safetensors: return open_safetensors(std::move(file));
        case FileKind::torch: return open_torch_file(std::move(file));
        case FileKind::gguf:
        case FileKind::ggml:
            fail(path.string(), " is a GGUF or .ggml file in a Hugging Face folder: give the file itself");
        case FileKind::other: break;
    }
    fail(describe_foreign_file(file->data(), file->size(), path.string()));
}

// A shard must lie in the folder itself: an index from outside may not name other places.
bool is_plain_file_name(const std::string& name) {
    return !name.empty() && name != "." && name != ".." && name.find('/') == name.npos &&
           name.find('\\') == name.npos && name.find('\0') == name.npos;
}

WeightFileContents open_shards(const fs::path& folder, const fs::path& index_path) {
    const MappedFile index(index_path.string());
    if (index.size() > kMaxIndexBytes)
        fail(index_path.string(), " is too large for an index: ", index.size(), " bytes");
    const std::string_view text(reinterpret_cast<const char*>(index.data()), index.size());
    const std::vector<ShardEntry> entries = parse_shard_index(text, index_path.string());

    std::set<std::string> files;
    for (const ShardEntry& entry : entries) files.insert(entry.file);
    if (files.size() > kMaxShards)
        fail(index_path.string(), " names ", files.size(), " files, expected at most ", kMaxShards);

    WeightFileContents all;
    std::unordered_map<std::string, std::string> where;  // tensor -> file
    for (const std::string& name : files) {
        if (!fs::exists(folder / name))
            fail(folder.string(), " lacks the file ", quote_name(name), " that ", index_path.filename().string(),
                 " names: download all ", files.size(), " parts of the model");
        WeightFileContents part = open_part(folder / name);
        for (WeightTensor& tensor : part.tensors) {
            const auto [known, added] = where.emplace(tensor.name, name);
            if (!added)
                fail(folder.string(), ": the tensor ", quote_name(tensor.name), " stands in both ", known->second,
                     " and ", name);
            all.tensors.push_back(std::move(tensor));
        }
        for (std::shared_ptr<const MappedFile>& mapping : part.mappings) all.mappings.push_back(std::move(mapping));
        all.copies.insert(all.copies.end(), part.copies.begin(), part.copies.end());
        for (const auto& [key, value] : part.metadata.entries()) all.metadata.add(key, value);
    }
    for (const ShardEntry& entry : entries) {
        const auto found = where.find(entry.tensor);
        if (found == where.end() || found->second != entry.file)
            fail(folder.string(), ": the index says that ", quote_name(entry.tensor), " is in ", entry.file,
                 ", but it is not: the parts do not belong together");
    }
    return all;
}

std::vector<fs::path> files_with_extension(const fs::path& folder, std::initializer_list<std::string_view> extensions) {
    std::vector<fs::path> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
        if (std::find(extensions.begin(), extensions.end(), entry.path().extension().string()) != extensions.end())
            files.push_back(entry.path());
    return files;
}

// The usual names first, safetensors before PyTorch; then the only file of its kind, such as Meta's sam3.pt.
WeightFileContents open_weights_of(const fs::path& folder) {
    for (const char* name : {"model.safetensors", "pytorch_model.bin"}) {
        if (fs::exists(folder / name)) return open_part(folder / name);
        const fs::path index = folder / (std::string(name) + ".index.json");
        if (fs::exists(index)) return open_shards(folder, index);
        const std::vector<fs::path> others = name == std::string_view("model.safetensors")
                                                 ? files_with_extension(folder, {".safetensors"})
                                                 : files_with_extension(folder, {".pt", ".pth", ".bin"});
        if (others.size() == 1) return open_part(others.front());
        if (others.size() > 1)
            fail("the folder ", folder.string(), " has ", others.size(), " ", others.front().extension().string(),
                 " files and none is named ", name, ": give the file itself");
    }
    fail("the folder ", folder.string(),
         " has no model.safetensors and no PyTorch file: download the model's weights into it");
}

}  // namespace

std::vector<ShardEntry> parse_shard_index(std::string_view json, const std::string& path) {
    const nlohmann::json index = parse_json(json, path);
    const auto map = index.is_object() ? index.find("weight_map") : index.end();
    if (map == index.end() || !map->is_object() || map->empty())
        fail(path, ": expected the index of a sharded model with a \"weight_map\", found none");
    std::vector<ShardEntry> entries;
    for (const auto& [tensor, file] : map->items()) {
        if (!file.is_string() || !is_plain_file_name(file.get_ref<const std::string&>()))
            fail(path, ": expected the name of a file beside the index for ", quote_name(tensor),
                 ", found something else");
        entries.push_back({tensor, file.get<std::string>()});
    }
    return entries;
}

WeightFileContents open_hf_folder(const std::string& folder) {
    const fs::path root(folder);
    try {
        if (!fs::exists(root / "config.json"))
            fail("expected a Hugging Face model folder, found no config.json in ", folder,
                 ": give the folder that holds config.json and model.safetensors, or a weight file");
        WeightFileContents contents = open_weights_of(root);
        contents.format = "Hugging Face folder";
        contents.path = folder;
        contents.side_folder = folder;
        return contents;
    } catch (const fs::filesystem_error& error) {
        fail("cannot read the folder ", folder, ": ", error.code().message());
    }
}

}  // namespace sam3
