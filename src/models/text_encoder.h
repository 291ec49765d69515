#pragma once

#include "models/sam3_config.h"
#include "nn/layers.h"

namespace sam3 {

// CLIP's text transformer (causal, pre-norm) with the projection to the detector's width.
class TextEncoder {
public:
    TextEncoder() = default;
    TextEncoder(const nn::LoadContext& context, const Scope& encoder, const Scope& projection, const TextConfig& config,
                int64_t out);

    Tensor embed(const Tensor& ids) const;  // i32 [N, T] -> [N, T, C], both in host memory
    // embedded [N, T, C]; mask u8 [N, T] hides padding as keys, or is undefined -> [N, T, D]
    Tensor forward(Ops& ops, const Tensor& embedded, const Tensor& mask) const;

private:
    struct Block {
        nn::LayerNorm norm1, norm2;
        nn::Linear qkv, proj;
        nn::Mlp mlp;
    };
    TextConfig config_;
    WeightRows token_embedding_;  // [vocabulary, C]: a quarter of this part's weights, of which a phrase reads 32 rows
    Tensor position_embedding_;   // [context, C]
    std::vector<Block> blocks_;
    nn::LayerNorm final_norm_;
    nn::Linear projection_;
};

}  // namespace sam3
