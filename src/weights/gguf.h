#pragma once

#include "weights/weight_file.h"

#include <cstdint>

namespace sam3 {

constexpr uint32_t kGgufDefaultAlignment = 32;  // of tensor data, when "general.alignment" does not say otherwise

// Reads the metadata and tensor list of a GGUF file (version 2 or 3) in memory; tensors point into `data`.
// Every length is checked against what is left of the file before anything is allocated.
WeightFileContents parse_gguf(const uint8_t* data, size_t size, const std::string& path);

WeightFileContents open_gguf(std::shared_ptr<const MappedFile> file);

// ggml's number of a type; fails for types without one (u8, bool).
uint32_t gguf_type_number(WeightType type);

}  // namespace sam3
