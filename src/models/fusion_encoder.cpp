#include "models/fusion_encoder.h"

namespace sam3 {

FusionEncoder::FusionEncoder(const nn::LoadContext& context, const Scope& scope, const StackConfig& config) {
    const int64_t c = config.hidden_size;
    const nn::Attention::Options cross{.heads = config.heads, .own_keys = false};
    std::vector<Scope> cross_attentions;
    for (int i = 0; i < config.layers; ++i) {
        const Scope layer = scope / "layers" / i;
        cross_attentions.push_back(layer / "cross_attn");
        layers_.push_back({nn::LayerNorm(context, layer / "layer_norm1", c, nn::kNormEps),
                           nn::LayerNorm(context, layer / "layer_norm2", c, nn::kNormEps),
                           nn::LayerNorm(context, layer / "layer_norm3", c, nn::kNormEps),
                           nn::SelfAttention(context, layer / "self_attn", c, config.heads),
                           nn::Attention(context, cross_attentions.back(), c, cross),
                           nn::Mlp(context, layer / "mlp", c, config.mlp_size, config.activation)});
    }
    prompt_keys_ = nn::StackedKeys(context, cross_attentions, "k_proj", c);
    prompt_values_ = nn::StackedKeys(context, cross_attentions, "v_proj", c);
}

Tensor FusionEncoder::look_around(Ops& ops, const Layer& layer, const Tensor& x, const Tensor& positions) {
    const auto [h, placed] = layer.norm1.forward_placed(ops, x, positions);
    return layer.self_attention.forward(ops, placed, h, x);
}

Tensor FusionEncoder::begin(Ops& ops, const Tensor& features, const Tensor& positions) const {
    const Tensor x = ops.cast(features, DType::f32);  // what the layers add up
    return look_around(ops, layers_.front(), x, positions);
}

Tensor FusionEncoder::forward(Ops& ops, const Tensor& begun, const Tensor& positions,
                              const PromptTokens& prompt) const {
    const Tensor tokens = ops.stored(prompt.tokens);
    const std::vector<Tensor> keys = prompt_keys_.forward(ops, tokens);
    const std::vector<Tensor> values = prompt_values_.forward(ops, tokens);
    Tensor x = ops.contiguous(begun.expand(0, prompt.tokens.dim(0)));
    for (size_t i = 0; i < layers_.size(); ++i) {
        const Layer& layer = layers_[i];
        if (i > 0) x = look_around(ops, layer, x, positions);
        const Tensor query = layer.cross_attention.project_query(ops, layer.norm2.forward(ops, x));
        x = layer.cross_attention.attend(ops, query, keys[i], values[i], x, {.key_mask = prompt.mask});
        x = layer.mlp.forward(ops, layer.norm3.forward(ops, x), x);
        ops.trace("fusion.layer." + std::to_string(i), x);
    }
    return x;
}

}  // namespace sam3
