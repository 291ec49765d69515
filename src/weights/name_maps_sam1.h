#pragma once

#include "weights/name_map.h"

#include <vector>

namespace sam3 {

class WeightFile;

// SAM 1's canonical names are those of transformers' SamModel, except that parts shared with SAM 3 are named as there:
// mlp.fc1 and fc2 in the image encoder, mlp.proj_in and proj_out and o_proj in the mask decoder, and one
// prompt_encoder.point_embed.weight for the four kinds of points.

const NameMap& sam1_hf_names();        // transformers' SamModel
const NameMap& sam1_official_names();  // Meta's sam_vit_b, sam_vit_l and sam_vit_h

bool is_sam1(const WeightFile& file);
// The one of the two maps that the file's names belong to; fails when they belong to neither.
const NameMap& sam1_name_map(const WeightFile& file);

// Tensors of a complete SAM 1 file that inference never reads (canonical names).
const std::vector<IgnoreRule>& sam1_unused_weights();

}  // namespace sam3
