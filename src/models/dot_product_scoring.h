#pragma once

#include "models/fusion_encoder.h"
#include "nn/layers.h"

namespace sam3 {

// How well each query matches the prompt: a scaled dot product with the mean of the refined prompt tokens.
class DotProductScoring {
public:
    DotProductScoring() = default;
    DotProductScoring(const nn::LoadContext& context, const Scope& scope, int64_t channels, int64_t hidden);

    Tensor pool(Ops& ops, const PromptTokens& prompt) const;  // -> [B, 1, C]
    // queries [B, Q, C] and the pooled prompt -> logits [B, Q], limited to +-12
    Tensor forward(Ops& ops, const Tensor& queries, const Tensor& pooled) const;

private:
    int64_t channels_ = 0;
    nn::MlpHead text_mlp_;
    nn::LayerNorm text_norm_;
    nn::Linear text_proj_, query_proj_;
};

}  // namespace sam3
