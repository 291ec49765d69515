#include "models/memory_attention.h"

#include "nn/position.h"

#include <string>

namespace sam3 {

namespace {

constexpr float kPositionWeight = 0.1F;

Tensor for_batch(const Tensor& x, int64_t batch) { return x.dim(0) == batch ? x : x.expand(0, batch); }

}  // namespace

MemoryAttention::SelfAttention::SelfAttention(const nn::LoadContext& context, const Scope& scope, int64_t channels,
                                              const MemoryConfig& config)
    : qkv(context, {scope / "q_proj", scope / "k_proj", scope / "v_proj"}, channels, channels / config.downsample_rate),
      o(context, scope / "o_proj", channels / config.downsample_rate, channels),
      heads(config.heads) {}

Tensor MemoryAttention::SelfAttention::forward(Ops& ops, const Tensor& x, const Tensor& table,
                                               const Tensor& residual) const {
    const Tensor all = qkv.forward(ops, x);
    const int64_t c = all.dim(-1) / 3;
    ops.rope_2d_(all.slice(-1, 0, 2 * c), table, 2 * heads);  // queries and keys
    const Tensor attended =
        ops.attention(all.slice(-1, 0, c), all.slice(-1, c, c), all.slice(-1, 2 * c, c), {.heads = heads});
    return o.forward(ops, attended, Activation::none, residual);
}

MemoryAttention::CrossAttention::CrossAttention(const nn::LoadContext& context, const Scope& scope, int64_t channels,
                                                const MemoryConfig& config)
    : heads(config.heads) {
    const int64_t inner = channels / config.downsample_rate;
    q = nn::Linear(context, scope / "q_proj", channels, inner);
    k = nn::Linear(context, scope / "k_proj", config.channels, inner);
    v = nn::Linear(context, scope / "v_proj", config.channels, inner);
    o = nn::Linear(context, scope / "o_proj", inner, channels);
}

Tensor MemoryAttention::CrossAttention::forward(Ops& ops, const Tensor& x, const Memories& memories,
                                                const Tensor& table, const Tensor& residual) const {
    const int64_t batch = memories.keys.dim(0);
    const Tensor queries = q.forward(ops, x);
    ops.rope_2d_(queries, table, heads);
    const Tensor keys = k.forward(ops, memories.keys);
    ops.rope_2d_(keys.slice(1, 0, memories.rotated), table, heads);
    // A row's weights sum to one, so that values may be projected after they are weighed, bias and all. Memories are
    // narrower than what they are projected to, and there are more of them than of queries.
    const bool weigh_first = heads == 1 && memories.values.dim(-1) < keys.dim(-1);
    Tensor attended =
        ops.attention(for_batch(queries, batch), keys, weigh_first ? memories.values : v.forward(ops, memories.values),
                      {.heads = heads, .key_mask = memories.mask});
    if (weigh_first) attended = v.forward(ops, attended);
    return o.forward(ops, attended, Activation::none, for_batch(residual, batch));
}

MemoryAttention::MemoryAttention(const nn::LoadContext& context, const Scope& scope, int64_t channels,
                                 const MemoryConfig& config)
    : config_(config), channels_(channels), norm_(context, scope / "layer_norm", channels, nn::kNormEps) {
    for (int i = 0; i < config.layers; ++i) {
        const Scope layer = scope / "layers" / i;
        layers_.push_back({nn::LayerNorm(context, layer / "layer_norm1", channels, nn::kNormEps),
                           nn::LayerNorm(context, layer / "layer_norm2", channels, nn::kNormEps),
                           nn::LayerNorm(context, layer / "layer_norm3", channels, nn::kNormEps),
                           SelfAttention(context, layer / "self_attn", channels, config),
                           CrossAttention(context, layer / "cross_attn_image", channels, config),
                           nn::Linear(context, layer / "linear1", channels, config.mlp_size),
                           nn::Linear(context, layer / "linear2", config.mlp_size, channels)});
    }
}

std::shared_ptr<const MemoryAttention::Tables> MemoryAttention::tables_for(Ops& ops, int64_t height,
                                                                           int64_t width) const {
    return tables_.get(height, width, [&] {
        const Tensor positions = nn::sine_position_table(height, width, channels_);
        for (int64_t i = 0; i < positions.numel(); ++i) positions.data<float>()[i] *= kPositionWeight;
        const int64_t head_size = channels_ / config_.downsample_rate / config_.heads;
        return Tables{ops.upload(positions),
                      ops.upload(nn::axial_rope_table(height, width, head_size, config_.rope_theta, /*scale=*/1.0F))};
    });
}

Tensor MemoryAttention::forward(Ops& ops, const Tensor& map, const MemoryTokens& memory) const {
    const int64_t tokens = map.dim(1) * map.dim(2);
    const std::shared_ptr<const Tables> tables = tables_for(ops, map.dim(1), map.dim(2));
    std::vector<Tensor> inputs = {map, memory.values, memory.positions};
    if (memory.mask) inputs.push_back(memory.mask);
    const std::string name = "memory_attention " + std::to_string(memory.in_maps);
    return ops.stage(name, inputs, [&](const std::vector<Tensor>& in) {
        const Memories memories{ops.stored(ops.add(in[1], in[2])), in[1], in.size() > 3 ? in[3] : Tensor(),
                                memory.in_maps};
        Tensor x = ops.add(in[0].reshape({1, tokens, channels_}), tables->positions);
        for (const Layer& layer : layers_) {
            x = layer.self_attention.forward(ops, layer.norm1.forward(ops, x), tables->rope, x);
            x = layer.cross_attention.forward(ops, layer.norm2.forward(ops, x), memories, tables->rope, x);
            const Tensor h = layer.mlp1.forward(ops, layer.norm3.forward(ops, x), config_.activation);
            x = layer.mlp2.forward(ops, h, Activation::none, x);
        }
        return std::vector<Tensor>{norm_.forward(ops, x).reshape({x.dim(0), map.dim(1), map.dim(2), channels_})};
    })[0];
}

}  // namespace sam3
