#pragma once

#include "models/sam1_config.h"
#include "nn/layers.h"
#include "util/size_cache.h"

namespace sam3 {

// SAM 1's image encoder: a ViT with absolute positions and, in every attention, decomposed relative positions; most
// blocks attend inside windows, a few over the whole image. A neck brings the result to the decoder's width.
class Sam1ImageEncoder {
public:
    Sam1ImageEncoder() = default;
    Sam1ImageEncoder(const nn::LoadContext& context, const Scope& scope, const Sam1VisionConfig& config);

    // pixels [N, H, W, 3], H and W multiples of the patch size -> [N, H/p, W/p, output_channels]. Positions are
    // interpolated for other sizes than the stored one.
    Tensor forward(Ops& ops, const Tensor& pixels) const;

private:
    struct Block {
        nn::LayerNorm norm1, norm2;
        nn::Linear qkv, proj;
        nn::Mlp mlp;
        Tensor relative_rows, relative_cols;  // host, [2 side - 1, D]: by distance
        int64_t window = 0;                   // 0: the whole image
    };
    // By query and key: [H, H, D] and [W, W, D] of what a block attends over.
    struct RelativePositions {
        Tensor rows, cols;
    };
    struct Tables {
        Tensor positions;                         // [H, W, C]
        std::vector<RelativePositions> relative;  // of each block
    };

    std::shared_ptr<const Tables> tables_for(Ops& ops, int64_t height, int64_t width) const;
    Tensor block_forward(Ops& ops, const Block& block, const Tensor& x, const RelativePositions& relative) const;
    Tensor attend_in_windows(Ops& ops, const Block& block, const Tensor& x, const RelativePositions& relative) const;
    Tensor attend(Ops& ops, const Block& block, const Tensor& x, const RelativePositions& relative) const;

    Sam1VisionConfig config_;
    nn::Conv2d patch_embed_;
    Tensor position_embedding_;  // host, [1, grid, grid, C]
    std::vector<Block> blocks_;
    nn::Conv2d neck1_, neck2_;
    nn::LayerNorm neck_norm1_, neck_norm2_;
    SizeCache<Tables> tables_;
};

}  // namespace sam3
