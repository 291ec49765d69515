#include "models/text_encoder.h"

namespace sam3 {

TextEncoder::TextEncoder(const nn::LoadContext& context, const Scope& encoder, const Scope& projection,
                         const TextConfig& config, int64_t out)
    : config_(config),
      token_embedding_(
          (encoder / "embeddings" / "token_embedding").rows("weight", {config.vocabulary, config.hidden_size})),
      position_embedding_(nn::to_device(
          context,
          (encoder / "embeddings" / "position_embedding").tensor("weight", {config.context, config.hidden_size}))),
      final_norm_(context, encoder / "final_layer_norm", config.hidden_size, config.norm_eps),
      projection_(context, projection, config.hidden_size, out) {
    const int64_t c = config.hidden_size;
    for (int i = 0; i < config.layers; ++i) {
        const Scope layer = encoder / "encoder" / "layers" / i;
        const Scope attention = layer / "self_attn";
        blocks_.push_back(
            {nn::LayerNorm(context, layer / "layer_norm1", c, config.norm_eps),
             nn::LayerNorm(context, layer / "layer_norm2", c, config.norm_eps),
             nn::Linear(context, {attention / "q_proj", attention / "k_proj", attention / "v_proj"}, c, c),
             nn::Linear(context, attention / "out_proj", c, c),
             nn::Mlp(context, layer / "mlp", c, config.mlp_size, config.activation)});
    }
}

Tensor TextEncoder::embed(const Tensor& ids) const {
    Tensor rows = Tensor::host({ids.dim(0), ids.dim(1), config_.hidden_size});
    for (int64_t i = 0; i < ids.numel(); ++i)
        token_embedding_.read(ids.data<int32_t>()[i], rows.data<float>() + i * config_.hidden_size);
    return rows;
}

Tensor TextEncoder::forward(Ops& ops, const Tensor& embedded, const Tensor& mask) const {
    const int64_t c = config_.hidden_size;
    Tensor x = ops.add(embedded, position_embedding_.slice(0, 0, embedded.dim(1)));
    const AttentionOptions options{.heads = config_.heads, .causal = true, .key_mask = mask};
    for (const Block& block : blocks_) {
        const Tensor qkv = block.qkv.forward(ops, block.norm1.forward(ops, x));
        const Tensor attended =
            ops.attention(qkv.slice(-1, 0, c), qkv.slice(-1, c, c), qkv.slice(-1, 2 * c, c), options);
        x = block.proj.forward(ops, attended, Activation::none, x);
        x = block.mlp.forward(ops, block.norm2.forward(ops, x), x);
    }
    return projection_.forward(ops, final_norm_.forward(ops, x));
}

}  // namespace sam3
