#pragma once

#include "models/sam3_config.h"
#include "nn/layers.h"

namespace sam3 {

// Prompt tokens of a batch of prompts: [B, T, C] and which of them are real.
struct PromptTokens {
    Tensor tokens;  // [B, T, C]
    Tensor mask;    // u8 [B, T]
    Tensor mean;    // [B, 1, T]: 1 / (number of real tokens) where real, else 0
};

// Mixes the prompt into the image features: pre-norm layers of self-attention over the image and cross-attention to
// the prompt.
class FusionEncoder {
public:
    FusionEncoder() = default;
    FusionEncoder(const nn::LoadContext& context, const Scope& scope, const StackConfig& config);

    // features [1 or B, T, C], positions [T, C] -> [B, T, C]. With one image for several prompts the first
    // self-attention, which no prompt has touched yet, is computed once.
    Tensor forward(Ops& ops, const Tensor& features, const Tensor& positions, const PromptTokens& prompt) const;

private:
    struct Layer {
        nn::LayerNorm norm1, norm2, norm3;
        nn::Attention self_attention, cross_attention;
        nn::Mlp mlp;
    };
    std::vector<Layer> layers_;
};

}  // namespace sam3
