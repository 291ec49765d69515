#include "weights/hf_folder.h"

#include "util/error.h"
#include "weights/file_kind.h"
#include "weights/json_text.h"
#include "weights/quote_name.h"
#include "weights/safetensors.h"

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
    if (identify_weights(file->data(), file->size()) != FileKind::safetensors)
        fail(describe_foreign_file(file->data(), file->size(), path.string()));
    return open_safetensors(std::move(file));
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

WeightFileContents open_only_safetensors(const fs::path& folder) {
    std::vector<fs::path> candidates;
    bool has_pickles = false;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
        const std::string extension = entry.path().extension().string();
        if (extension == ".safetensors") candidates.push_back(entry.path());
        if (extension == ".bin" || extension == ".pt" || extension == ".pth") has_pickles = true;
    }
    if (candidates.size() == 1) return open_part(candidates.front());
    if (candidates.size() > 1)
        fail("the folder ", folder.string(), " has ", candidates.size(),
             " .safetensors files and none is named model.safetensors: give the file itself");
    fail("the folder ", folder.string(), " has no model.safetensors",
         has_pickles ? ", only PyTorch files, which cannot be read yet: use the safetensors version of the model"
                     : ": download the model's weights into it");
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
        const fs::path single = root / "model.safetensors", index = root / "model.safetensors.index.json";
        WeightFileContents contents = fs::exists(single)  ? open_part(single)
                                      : fs::exists(index) ? open_shards(root, index)
                                                          : open_only_safetensors(root);
        contents.format = "Hugging Face folder";
        contents.path = folder;
        contents.side_folder = folder;
        return contents;
    } catch (const fs::filesystem_error& error) {
        fail("cannot read the folder ", folder, ": ", error.code().message());
    }
}

}  // namespace sam3
