#pragma once

#include "weights/weight_file.h"

namespace sam3 {

// Reads a .ggml file of PABannier/sam3.cpp that holds SAM 3, whole or its visual part (versions 1 to 3, and the version
// 4 of a fork). Its sizes become metadata under the names that Hugging Face's config.json gives them, joined with dots
// behind "sam3."; its tokenizer becomes tokenizer.ggml.tokens and tokenizer.ggml.merges. Tensors point into `data`.
WeightFileContents parse_ggml_file(const uint8_t* data, size_t size, const std::string& path);

WeightFileContents open_ggml_file(std::shared_ptr<const MappedFile> file);

}  // namespace sam3
