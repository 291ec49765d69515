#pragma once

#include "models/sam3_config.h"
#include "nn/layers.h"
#include "util/size_cache.h"

namespace sam3 {

// The plain ViT of SAM 3's image encoder: patch embedding without bias, tiled absolute positions, pre-norm blocks with
// axial RoPE; most blocks attend inside windows, a few over the whole image.
class Vit {
public:
    Vit() = default;
    Vit(const nn::LoadContext& context, const Scope& scope, const VitConfig& config, float norm_eps);

    // pixels [N, H, W, 3], H and W multiples of the patch size -> [N, H/p, W/p, C]
    Tensor forward(Ops& ops, const Tensor& pixels) const;

private:
    struct Block {
        nn::LayerNorm norm1, norm2;
        nn::Linear qkv, proj;
        nn::Mlp mlp;
        int window = 0;
    };
    struct Tables {
        Tensor positions;    // [H, W, C]
        Tensor window_rope;  // [window^2, D/2, 2]
        Tensor global_rope;  // [H*W, D/2, 2]
    };

    Tensor block_forward(Ops& ops, const Block& block, Tensor x, const Tables& tables) const;
    Tensor attend(Ops& ops, const Block& block, const Tensor& normed, const Tables& tables) const;
    std::shared_ptr<const Tables> tables_for(Ops& ops, int64_t height, int64_t width) const;

    VitConfig config_;
    nn::Conv2d patch_embed_;
    Tensor position_embedding_;  // host, [grid*grid, C]
    nn::LayerNorm norm_;
    std::vector<Block> blocks_;
    SizeCache<Tables> tables_;
};

}  // namespace sam3
