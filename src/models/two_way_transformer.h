#pragma once

#include "nn/layers.h"

namespace sam3 {

struct TwoWayConfig {
    int64_t hidden_size = 256;
    int64_t mlp_size = 2048;
    int layers = 2;
    int heads = 8;
    int64_t downsample_rate = 2;  // of the attention between tokens and image
    float norm_eps = 1e-5F;       // of the layers; the last norm always has 1e-5
};

// SAM's decoder transformer: tokens attend to the image and the image to the tokens, in turn.
class TwoWayTransformer {
public:
    // An image as the first block meets it, whatever the tokens are.
    struct Image {
        Tensor features;           // [1 or B, H*W, C]
        Tensor placed;             // with their positions
        Tensor key, value, query;  // the first block's projections
    };
    struct Output {
        Tensor tokens;  // [B, T, C]
        Tensor image;   // [B, H*W, C]
    };

    TwoWayTransformer() = default;
    TwoWayTransformer(const nn::LoadContext& context, const Scope& scope, const TwoWayConfig& config);

    // features [1 or B, H*W, C], positions [H*W, C]
    Image prepare(Ops& ops, const Tensor& features, const Tensor& positions) const;
    // tokens [B, T, C] with key mask u8 [B, T] or undefined
    Output forward(Ops& ops, const Tensor& tokens, const Tensor& mask, const Image& image,
                   const Tensor& positions) const;

private:
    struct Block {
        nn::SelfAttention self_attention;
        nn::Attention token_to_image, image_to_token;
        nn::LayerNorm norm1, norm2, norm3, norm4;
        nn::MlpHead mlp;
    };
    std::vector<Block> blocks_;
    nn::Attention final_attention_;
    nn::LayerNorm final_norm_;
};

}  // namespace sam3
