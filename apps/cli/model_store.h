#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Models by name. They are looked for in the folders of $SAM3_MODELS, in ~/.local/share/sam3/models, in ./models and in
// the cache of Hugging Face's tools, in this order; nothing is ever fetched.
namespace sam3::cli {

struct StoredModel {
    std::string name;   // "sam3-shapes", "facebook/sam3"
    std::string path;   // a file, or a folder with config.json
    std::string place;  // the folder or cache that it was found in
    uint64_t bytes = 0;
};

std::vector<StoredModel> stored_models();

// A path as it is, a name as the first model that has it; "sam3" also means "facebook/sam3". Fails with a sentence.
std::string resolve_model(const std::string& given);

// Where `sam3 models pull` puts models: the first folder of $SAM3_MODELS, or ~/.local/share/sam3/models.
std::string models_folder();

}  // namespace sam3::cli
