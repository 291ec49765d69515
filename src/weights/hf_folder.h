#pragma once

#include "weights/weight_file.h"

#include <string>
#include <string_view>
#include <vector>

namespace sam3 {

// A Hugging Face model folder: config.json with model.safetensors, or with model.safetensors.index.json and its shards,
// or with a single other *.safetensors file; without those, the same with pytorch_model.bin and *.pt, *.pth or *.bin.
WeightFileContents open_hf_folder(const std::string& folder);

// Where a sharded model's tensors lie, as its index says: tensor name and file name, both checked.
struct ShardEntry {
    std::string tensor;
    std::string file;
};
std::vector<ShardEntry> parse_shard_index(std::string_view json, const std::string& path);

}  // namespace sam3
