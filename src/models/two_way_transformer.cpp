#include "models/two_way_transformer.h"

namespace sam3 {

namespace {
constexpr float kFinalNormEps = 1e-5F;
}

TwoWayTransformer::TwoWayTransformer(const nn::LoadContext& context, const Scope& scope, const TwoWayConfig& config) {
    const int64_t c = config.hidden_size;
    const nn::Attention::Options reduced{.heads = config.heads, .inner = c / config.downsample_rate};
    for (int i = 0; i < config.layers; ++i) {
        const Scope layer = scope / "layers" / i;
        blocks_.push_back({nn::SelfAttention(context, layer / "self_attn", c, config.heads),
                           nn::Attention(context, layer / "cross_attn_token_to_image", c, reduced),
                           nn::Attention(context, layer / "cross_attn_image_to_token", c, reduced),
                           nn::LayerNorm(context, layer / "layer_norm1", c, config.norm_eps),
                           nn::LayerNorm(context, layer / "layer_norm2", c, config.norm_eps),
                           nn::LayerNorm(context, layer / "layer_norm3", c, config.norm_eps),
                           nn::LayerNorm(context, layer / "layer_norm4", c, config.norm_eps),
                           nn::MlpHead(context, layer / "mlp", {"proj_in", "proj_out"}, c, config.mlp_size, c)});
    }
    final_attention_ = nn::Attention(context, scope / "final_attn_token_to_image", c, reduced);
    final_norm_ = nn::LayerNorm(context, scope / "layer_norm_final_attn", c, kFinalNormEps);
}

TwoWayTransformer::Image TwoWayTransformer::prepare(Ops& ops, const Tensor& features, const Tensor& positions) const {
    const Block& first = blocks_.front();
    const Tensor placed = ops.add(features, positions);
    return {features, placed, first.token_to_image.project_key(ops, placed),
            first.token_to_image.project_value(ops, features), first.image_to_token.project_query(ops, placed)};
}

TwoWayTransformer::Output TwoWayTransformer::forward(Ops& ops, const Tensor& tokens, const Tensor& mask,
                                                     const Image& image, const Tensor& positions) const {
    const AttentionOptions masked{.key_mask = mask};
    Tensor queries = tokens;
    Tensor keys = image.features;
    Tensor placed = image.placed;
    for (size_t i = 0; i < blocks_.size(); ++i) {
        const Block& block = blocks_[i];
        const bool first = i == 0;
        if (first) {  // the first block has neither position nor residual in its self-attention
            queries = block.self_attention.forward(ops, queries, queries, {}, masked);
        } else {
            queries = block.self_attention.forward(ops, ops.add(queries, tokens), queries, queries, masked);
        }
        queries = block.norm1.forward(ops, queries);

        queries =
            block.token_to_image.attend(ops, block.token_to_image.project_query(ops, ops.add(queries, tokens)),
                                        first ? image.key : block.token_to_image.project_key(ops, placed),
                                        first ? image.value : block.token_to_image.project_value(ops, keys), queries);
        queries = block.norm2.forward(ops, queries);
        queries = block.norm3.forward(ops, block.mlp.forward(ops, queries, queries));

        keys = block.image_to_token.attend(ops, first ? image.query : block.image_to_token.project_query(ops, placed),
                                           block.image_to_token.project_key(ops, ops.add(queries, tokens)),
                                           block.image_to_token.project_value(ops, queries), keys, masked);
        keys = block.norm4.forward(ops, keys);
        placed = ops.add(keys, positions);
    }
    queries = final_attention_.forward(ops, ops.add(queries, tokens), placed, keys, queries);
    return {final_norm_.forward(ops, queries), keys};
}

}  // namespace sam3
