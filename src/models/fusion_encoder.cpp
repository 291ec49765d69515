#include "models/fusion_encoder.h"

namespace sam3 {

FusionEncoder::FusionEncoder(const nn::LoadContext& context, const Scope& scope, const StackConfig& config) {
    const int64_t c = config.hidden_size;
    for (int i = 0; i < config.layers; ++i) {
        const Scope layer = scope / "layers" / i;
        layers_.push_back({nn::LayerNorm(context, layer / "layer_norm1", c, nn::kNormEps),
                           nn::LayerNorm(context, layer / "layer_norm2", c, nn::kNormEps),
                           nn::LayerNorm(context, layer / "layer_norm3", c, nn::kNormEps),
                           nn::Attention(context, layer / "self_attn", c, config.heads),
                           nn::Attention(context, layer / "cross_attn", c, config.heads),
                           nn::Mlp(context, layer / "mlp", c, config.mlp_size, config.activation)});
    }
}

Tensor FusionEncoder::forward(Ops& ops, const Tensor& features, const Tensor& positions,
                              const PromptTokens& prompt) const {
    Tensor x = ops.cast(features, DType::f32);  // what the layers add up
    const Tensor placed = ops.stored(positions);
    const Tensor tokens = ops.stored(prompt.tokens);
    for (size_t i = 0; i < layers_.size(); ++i) {
        const Layer& layer = layers_[i];
        Tensor h = layer.norm1.forward(ops, x);
        const Tensor with_positions = ops.add(h, placed);
        x = layer.self_attention.forward(ops, with_positions, with_positions, h, x);
        if (i == 0) x = ops.contiguous(x.expand(0, prompt.tokens.dim(0)));
        h = layer.norm2.forward(ops, x);
        x = layer.cross_attention.forward(ops, h, tokens, tokens, x, {.key_mask = prompt.mask});
        x = layer.mlp.forward(ops, layer.norm3.forward(ops, x), x);
        ops.trace("fusion.layer." + std::to_string(i), x);
    }
    return x;
}

}  // namespace sam3
