#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace sam3::cli {

// Tells weights apart without reading them all: sizes, and a SHA-256 of each file's start and of samples of the rest.
// `path` is a file, or a folder of them.
nlohmann::ordered_json model_identity(const std::string& path);

}  // namespace sam3::cli
