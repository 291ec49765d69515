#include "models/precision_policy.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace sam3 {

namespace {

// Transformer layers and the convolutions of necks and mask head: 99 % of the arithmetic. On the model in the box none
// of them costs anything measurable in int8, nor does the rest (docs/performance.md). The rest stays f32 because its
// time does not matter and its errors could: the patch embedding, whose errors every layer inherits, the heads that
// give scores and boxes, the parts that run once for a prompt.
constexpr std::string_view kLargeParts[] = {
    "vision_encoder.backbone.layers.",  // SAM 3; what they add to stays f32: in bf16, masks of clicks suffer
    "vision_encoder.layers.",               // SAM 1
    "text_model.encoder.layers.",
    "detr_encoder.layers.",
    "detr_decoder.layers.",
    "memory_attention.layers.",
    "fpn_layers.",
    "pixel_decoder.conv_layers.",
};

// Small as well, but on large maps, whose conversion to f32 and back would cost a device that stores bf16 more than the
// products themselves.
constexpr std::string_view kPartsOnMaps[] = {"mask_decoder.prompt_cross_attn", "mask_decoder.instance_projection.",
                                             "mask_decoder.conv_s0.", "mask_decoder.conv_s1."};

template <size_t N>
bool is_one_of(const std::string_view (&parts)[N], const std::string& name) {
    return std::any_of(std::begin(parts), std::end(parts),
                       [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

}  // namespace

Precision precision_policy(const std::string& name, Precision asked) {
    const bool follows = is_one_of(kLargeParts, name) || (asked == Precision::bf16 && is_one_of(kPartsOnMaps, name));
    return follows ? asked : Precision::f32;
}

}  // namespace sam3
