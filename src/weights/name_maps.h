#pragma once

#include "weights/name_map.h"

#include <vector>

namespace sam3 {

class WeightFile;

// SAM 3 as Hugging Face stores it (Sam3VideoModel, or its detector Sam3Model alone): the canonical names.
const NameMap& sam3_hf_names();
// SAM 3 as Meta publishes it (sam3.pt), with the detector's names also without their prefix.
const NameMap& sam3_official_names();
// SAM 3 in the .ggml files of PABannier/sam3.cpp.
const NameMap& sam3_ggml_names();
// SAM 3's detector as it is converted for MLX, also in ropoctl/sam3cpp's GGUF files, where the names are hashed.
const NameMap& sam3_mlx_names();
// SAM 3.1 as Meta publishes it, as far as images need it.
const NameMap& sam31_official_names();
// The one of them that the file's names belong to; fails when they belong to none.
const NameMap& sam3_name_map(const WeightFile& file);

// Tensors of a complete SAM 3 file that inference never reads (canonical names).
const std::vector<IgnoreRule>& sam3_unused_weights();

}  // namespace sam3
