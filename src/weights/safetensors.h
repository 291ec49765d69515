#pragma once

#include "weights/weight_file.h"

namespace sam3 {

constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;  // bytes; the limit of the format's own library

// Reads the header of a safetensors file in memory; tensors point into `data`. Everything is checked before use.
WeightFileContents parse_safetensors(const uint8_t* data, size_t size, const std::string& path);

WeightFileContents open_safetensors(std::shared_ptr<const MappedFile> file);

}  // namespace sam3
