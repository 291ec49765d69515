#include "models/vit.h"

#include "nn/position.h"
#include "util/error.h"

namespace sam3 {

Vit::Vit(const nn::LoadContext& context, const Scope& scope, const VitConfig& config, float norm_eps)
    : config_(config),
      patch_embed_(context, scope / "embeddings" / "patch_embeddings" / "projection", 3, config.hidden_size,
                   {.kernel = static_cast<int>(config.patch_size),
                    .stride = static_cast<int>(config.patch_size),
                    .bias = false}),
      norm_(context, scope / "layer_norm", config.hidden_size, norm_eps, nn::LayerNorm::Result::image_stream) {
    const int64_t c = config.hidden_size;
    const int64_t side = config.grid(config.pretrain_image_size);
    position_embedding_ =
        (scope / "embeddings").tensor("position_embeddings", {1, side * side, c}).reshape({side * side, c});
    for (int i = 0; i < config.layers; ++i) {
        const Scope layer = scope / "layers" / i;
        const Scope attention = layer / "attention";
        Block block;
        block.norm1 = nn::LayerNorm(context, layer / "layer_norm1", c, norm_eps);
        block.qkv = nn::Linear(context, {attention / "q_proj", attention / "k_proj", attention / "v_proj"}, c, c);
        block.proj = nn::Linear(context, attention / "o_proj", c, c);
        block.norm2 = nn::LayerNorm(context, layer / "layer_norm2", c, norm_eps);
        block.mlp = nn::Mlp(context, layer / "mlp", c, config.mlp_size, config.activation);
        block.window = config.is_global(i) ? 0 : config.window;
        blocks_.push_back(std::move(block));
    }
}

std::shared_ptr<const Vit::Tables> Vit::tables_for(Ops& ops, int64_t height, int64_t width) const {
    return tables_.get(height, width, [&] {
        const int64_t head_size = config_.hidden_size / config_.heads;
        const float scale = static_cast<float>(config_.window) / static_cast<float>(height);
        return Tables{
            ops.upload(nn::tile_positions(position_embedding_, height, width)),
            ops.upload(nn::axial_rope_table(config_.window, config_.window, head_size, config_.rope_theta, 1.0F)),
            ops.upload(nn::axial_rope_table(height, width, head_size, config_.rope_theta, scale))};
    });
}

Tensor Vit::forward(Ops& ops, const Tensor& pixels) const {
    if (pixels.dim(1) % config_.patch_size != 0 || pixels.dim(2) % config_.patch_size != 0)
        fail("the image ", to_string(pixels.shape()), " is not a multiple of the patch size ", config_.patch_size);
    const auto tables = tables_for(ops, config_.grid(pixels.dim(1)), config_.grid(pixels.dim(2)));
    const Tensor positions = tables->positions.unsqueeze(0).expand(0, pixels.dim(0));
    Tensor x = patch_embed_.forward(ops, pixels, Activation::none, positions);
    ops.trace("vision.patch_embed", x);
    x = norm_.forward(ops, x);
    for (size_t i = 0; i < blocks_.size(); ++i) {
        x = block_forward(ops, blocks_[i], std::move(x), *tables);
        ops.trace("vision.block." + std::to_string(i), x);
    }
    return x;
}

// x [N, H, W, C] -> [N, H, W, C]
Tensor Vit::block_forward(Ops& ops, const Block& block, Tensor x, const Tables& tables) const {
    x = block.proj.forward(ops, attend(ops, block, block.norm1.forward(ops, x), tables), Activation::none, x);
    return block.mlp.forward(ops, block.norm2.forward(ops, x), x);
}

// Windows that reach over the edge see zero pixels before the projection, as in the reference: their keys are the
// biases.
Tensor Vit::attend(Ops& ops, const Block& block, const Tensor& normed, const Tables& tables) const {
    const int64_t c = config_.hidden_size;
    const int64_t batch = normed.dim(0);
    const int64_t height = normed.dim(1);
    const int64_t width = normed.dim(2);
    const int rotated = 2 * config_.heads;  // queries and keys
    if (block.window == 0) {
        const Tensor qkv =
            block.qkv.forward_rotated(ops, normed.reshape({batch, height * width, c}), tables.global_rope, rotated);
        return ops
            .attention(qkv.slice(-1, 0, c), qkv.slice(-1, c, c), qkv.slice(-1, 2 * c, c), {.heads = config_.heads})
            .reshape({batch, height, width, c});
    }
    const int64_t w = block.window;
    const Tensor padded = ops.pad_bottom_right(normed, (height + w - 1) / w * w, (width + w - 1) / w * w);
    const Tensor qkv = block.qkv.forward_rotated(ops, padded, tables.window_rope, rotated, block.window);
    return ops
        .attention(qkv.slice(-1, 0, c), qkv.slice(-1, c, c), qkv.slice(-1, 2 * c, c),
                   {.heads = config_.heads, .window = block.window})
        .slice(1, 0, height)
        .slice(2, 0, width);
}

}  // namespace sam3
