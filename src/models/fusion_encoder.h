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

    // What comes before the first look at a prompt, so once for an image: the first layer's self-attention.
    // features [N, T, C], positions [T, C] -> [N, T, C]
    Tensor begin(Ops& ops, const Tensor& features, const Tensor& positions) const;
    // The rest; begun [1 or B, T, C] -> [B, T, C]
    Tensor forward(Ops& ops, const Tensor& begun, const Tensor& positions, const PromptTokens& prompt) const;

private:
    struct Layer {
        nn::LayerNorm norm1, norm2, norm3;
        nn::SelfAttention self_attention;
        nn::Attention cross_attention;
        nn::Mlp mlp;
    };
    static Tensor look_around(Ops& ops, const Layer& layer, const Tensor& x, const Tensor& positions);

    nn::StackedKeys prompt_keys_, prompt_values_;
    std::vector<Layer> layers_;
};

}  // namespace sam3
