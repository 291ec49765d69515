#pragma once

#include "weights/name_map.h"

#include <string>
#include <string_view>

// The names in GGUF files that this program writes: the canonical ones with shorter beginnings, so that all are below
// the 64 bytes that ggml's own tools allow.
namespace sam3 {

class WeightFile;

bool is_own_gguf(const WeightFile& file);  // written by this program
const NameMap& sam3_gguf_names();
const NameMap& sam1_gguf_names();

// What a canonical name becomes in a file of this architecture.
std::string gguf_name(std::string_view canonical, std::string_view architecture);

constexpr const char* kGgufVersionKey = "sam3cpp.file_version";

}  // namespace sam3
