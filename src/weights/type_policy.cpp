#include "weights/type_policy.h"

#include "util/error.h"
#include "weights/codecs.h"
#include "weights/name_map.h"

#include <algorithm>
#include <string>

namespace sam3 {

namespace {

// f16 and bf16 keep more than any blocks, q8_0 more than other blocks.
int rank_of(WeightType type) {
    switch (type) {
        case WeightType::f32: return 3;
        case WeightType::f16:
        case WeightType::bf16: return 2;
        case WeightType::q8_0: return 1;
        default: return 0;
    }
}

// Blocks of 32 instead of 256, with no fewer bits a value.
WeightType with_small_blocks(WeightType type) {
    switch (type) {
        case WeightType::q4_k: return WeightType::q4_1;
        case WeightType::q5_k: return WeightType::q5_1;
        case WeightType::q6_k: return WeightType::q8_0;
        default: return type;
    }
}

}  // namespace

const std::vector<TypeRule>& type_rules() {
    static constexpr std::string_view kEmbedding = "a few rows that are added to features as they are";
    static constexpr std::string_view kHead = "small, and its output is a result: boxes, scores or masks";
    static const std::vector<TypeRule> rules{
        {"**positional_embedding", WeightType::f32, "frequencies of positions: their errors grow with the distance"},
        {"**.position_embeddings", WeightType::f16, "added to every patch as it is"},
        {"**.position_embedding.weight", WeightType::f16, "added to every token as it is"},
        {"**.pos_embed", WeightType::f16, "added to every patch as it is"},
        {"**.rel_pos_*", WeightType::f16, "added to attention scores as it is"},
        {"**.token_embedding.weight", WeightType::q8_0, "rows are looked up: no sum evens their errors out"},
        {"**_embed.weight", WeightType::f32, kEmbedding},
        {"**_token.weight", WeightType::f32, kEmbedding},
        {"**_tokens.weight", WeightType::f32, kEmbedding},
        {"**.reference_points.weight", WeightType::f32, "the boxes that the decoder starts from"},
        {"**.memory_temporal_positional_encoding", WeightType::f32, kEmbedding},
        {"**.no_*", WeightType::f32, kEmbedding},
        {"**.occlusion_spatial_embedding_parameter", WeightType::f32, kEmbedding},
        {"**.box_head.**", WeightType::f16, kHead},
        {"**.ref_point_head.**", WeightType::f16, kHead},
        {"**.presence_head.**", WeightType::f16, kHead},
        {"**.box_rpb_embed_*.**", WeightType::f16, "added to attention scores"},
        {"**.dot_product_scoring.**", WeightType::f16, kHead},
        {"**.mask_embedder.**", WeightType::f16, kHead},
        {"**.iou_prediction_head.**", WeightType::f16, kHead},
        {"**.pred_obj_score_head.**", WeightType::f16, kHead},
        {"**.output_hypernetworks_mlps.**", WeightType::f16, kHead},
        {"**.object_pointer_proj.**", WeightType::f16, "small, and what later frames remember"},
        {"**.temporal_positional_encoding_projection_layer.**", WeightType::f16, "small, and added to memories"},
    };
    return rules;
}

WeightType stored_type(std::string_view canonical, const Shape& shape, WeightType wanted) {
    if (wanted == WeightType::f32) return wanted;
    if (shape.rank() < 2) return WeightType::f32;  // norms and biases: a thousandth of the file
    for (const TypeRule& rule : type_rules()) {
        if (!match_name(rule.pattern, canonical)) continue;
        if (rank_of(rule.least) > rank_of(wanted)) wanted = rule.least;
        break;
    }
    if (is_quantized(wanted) && shape[-1] % block_size(wanted) != 0) wanted = with_small_blocks(wanted);
    // Kernels of small convolutions, whose rows are a few taps long.
    if (is_quantized(wanted) && shape[-1] % block_size(wanted) != 0) wanted = WeightType::f16;
    return wanted;
}

std::vector<std::string_view> writable_type_names() {
    std::vector<std::string_view> names;
    for (int i = 0; i < static_cast<int>(WeightType::unsupported); ++i) {
        const auto type = static_cast<WeightType>(i);
        if (can_encode(type) || type == WeightType::i8) names.push_back(name_of(type));
    }
    return names;
}

WeightType weight_type_by_name(std::string_view name) {
    std::string lower(name);
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
    std::string known;
    for (const std::string_view candidate : writable_type_names()) known += str(known.empty() ? "" : ", ", candidate);
    for (int i = 0; i < static_cast<int>(WeightType::unsupported); ++i) {
        const auto type = static_cast<WeightType>(i);
        if (lower == name_of(type) && (can_encode(type) || type == WeightType::i8)) return type;
    }
    fail("unknown type '", name, "': known are ", known);
}

}  // namespace sam3
