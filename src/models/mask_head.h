#pragma once

#include "models/fusion_encoder.h"
#include "models/sam3_config.h"
#include "nn/layers.h"

namespace sam3 {

// What makes masks of pixels: a mask's logit is the product of its vector and a pixel's, plus its offset.
struct MaskVectors {
    Tensor vectors;  // [B, Q, C]
    Tensor offsets;  // [B, Q, 1]
};

// MaskFormer-style head: the fused features look at the prompt once more, are brought to the finest resolution with the
// neck's maps, and a mask is the product of a pixel's and a query's embedding.
class MaskHead {
public:
    MaskHead() = default;
    MaskHead(const nn::LoadContext& context, const Scope& scope, int64_t channels, int heads, int stages);

    // maps: the neck's, finest first, [1 or B, h, w, C]; memory [B, H*W, C] -> pixel embedding [B, 4H, 4W, C]
    Tensor embed_pixels(Ops& ops, const std::vector<Tensor>& maps, const Tensor& memory,
                        const PromptTokens& prompt) const;
    MaskVectors vectors(Ops& ops, const Tensor& queries) const;  // of queries [B, Q, C]
    // -> logits [B, Q, h, w]
    Tensor masks(Ops& ops, const Tensor& pixels, const MaskVectors& masks) const;
    // -> [B, h, w]
    Tensor semantic(Ops& ops, const Tensor& pixels) const;

private:
    nn::Attention prompt_attention_;
    nn::LayerNorm prompt_norm_;
    std::vector<nn::Conv2d> convs_;
    std::vector<nn::GroupNorm> norms_;
    nn::Conv2d semantic_;
    nn::Linear instance_weight_, instance_bias_;  // of the projection of pixels, turned to the masks' side
    nn::MlpHead mask_embed_;
};

}  // namespace sam3
