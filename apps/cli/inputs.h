#pragma once

#include "image/image.h"

#include <memory>
#include <string>
#include <vector>

// The pictures that a command works on.
namespace sam3::cli {

struct Input {
    std::string name;  // as given, or as found in a folder; what results are filed under
    std::string path{};
    std::shared_ptr<const Image> image{};  // where it was read already; else null
    size_t task = 0;                       // index in the list of what to look for
    std::string stem{};                    // of its result files, relative, without ending
};

struct InputOptions {
    std::vector<std::string> given;  // files, folders, patterns, "-" for paths (or one picture) on stdin
    bool recursive = false;          // folders with their sub-folders
    std::string output;              // pictures below this folder are results, not inputs
};

// In natural order of their names, each once. Fails with a sentence when something given is not there.
std::vector<Input> list_inputs(const InputOptions& options);

// Gives each its stem. Needs the whole list: names must be the same in every shard.
void name_results(std::vector<Input>& inputs);

// Also from a camera: "camera:/dev/video0". Fails with a sentence that names the input.
Image read_input(const Input& input);

// A name as it can stand in JSON: of one that is not UTF-8, bytes beyond ASCII are written as \xNN.
std::string utf8_name(const std::string& name);

}  // namespace sam3::cli
