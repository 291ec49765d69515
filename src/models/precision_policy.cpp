#include "models/precision_policy.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace sam3 {

namespace {

// Transformer layers: 98 % of the weights and nearly all of the arithmetic. Everything else stays f32: the patch
// embedding, whose errors every layer inherits; heads that give scores and boxes; the parts that run once for a prompt.
constexpr std::string_view kLayers[] = {
    "vision_encoder.backbone.layers.", "vision_encoder.layers.",  // SAM 3, SAM 1
    "text_model.encoder.layers.",      "detr_encoder.layers.",   "detr_decoder.layers.", "memory_attention.layers.",
};

// Convolutions at high resolution: int8 costs mask edges, bf16 does not.
constexpr std::string_view kConvolutions[] = {
    "fpn_layers.",
    "pixel_decoder.conv_layers.",
};

template <size_t Count>
bool contains_any(const std::string& name, const std::string_view (&parts)[Count]) {
    return std::any_of(std::begin(parts), std::end(parts),
                       [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

}  // namespace

Precision precision_policy(const std::string& name, Precision asked) {
    if (asked == Precision::f32 || contains_any(name, kLayers)) return asked;
    return contains_any(name, kConvolutions) ? Precision::bf16 : Precision::f32;
}

}  // namespace sam3
