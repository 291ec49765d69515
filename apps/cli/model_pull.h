#pragma once

#include <string>
#include <vector>

namespace sam3::cli {

struct PullOptions {
    std::string repository;          // "facebook/sam3"
    std::vector<std::string> files;  // names or patterns; empty: what is needed to run the model
    std::string revision = "main";
    std::string endpoint;  // empty: $HF_ENDPOINT or https://huggingface.co
    std::string output;    // empty: REPOSITORY in the folder of models
    bool quiet = false;
    bool dry_run = false;
};

// Fetches a repository's files, checks them, and leaves a list of their checksums for `sam3 models verify`.
void pull_model(const PullOptions& options);

// The list that pull_model leaves in a model's folder.
inline constexpr const char* kChecksumsFile = "sam3-checksums.json";

}  // namespace sam3::cli
