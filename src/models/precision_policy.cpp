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
    "vision_encoder.backbone.layers.",  // SAM 3
    "vision_encoder.layers.",           // SAM 1
    "text_model.encoder.layers.",      "detr_encoder.layers.", "detr_decoder.layers.",
    "memory_attention.layers.",        "fpn_layers.",          "pixel_decoder.conv_layers.",
};

// Layers that look at a whole image for a few tokens, or the other way round: a GPU multiplies halves several times
// faster than f32, while codes of eight bits would gain nothing.
constexpr std::string_view kHalfParts[] = {"geometry_encoder.layers.", "mask_decoder.prompt_cross_attn"};

constexpr std::string_view kImageEncoder = kLargeParts[0];

template <typename Parts>
bool is_in(const std::string& name, const Parts& parts) {
    return std::any_of(std::begin(parts), std::end(parts),
                       [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

}  // namespace

Precision precision_policy(const std::string& name, Precision asked) {
    if (is_in(name, kHalfParts) && asked != Precision::int8) return asked == Precision::fp8 ? Precision::bf16 : asked;
    if (!is_in(name, kLargeParts)) return Precision::f32;
    // Eight bits with three behind the point are for where nearly all of the arithmetic is.
    const bool eight = asked == Precision::fp8;
    return eight && name.find(kImageEncoder) == std::string::npos ? Precision::bf16 : asked;
}

}  // namespace sam3
