#include "models/dot_product_scoring.h"

#include <cmath>

namespace sam3 {

DotProductScoring::DotProductScoring(const nn::LoadContext& context, const Scope& scope, int64_t channels,
                                     int64_t hidden)
    : channels_(channels),
      text_mlp_(context, scope / "text_mlp", {"layer1", "layer2"}, channels, hidden, channels),
      text_norm_(context, scope / "text_mlp_out_norm", channels, 1e-5F),
      text_proj_(context, scope / "text_proj", channels, channels),
      query_proj_(context, scope / "query_proj", channels, channels) {}

Tensor DotProductScoring::forward(Ops& ops, const Tensor& queries, const PromptTokens& prompt) const {
    constexpr float kLimit = 12.0F;
    const Tensor text = text_norm_.forward(ops, text_mlp_.forward(ops, prompt.tokens, prompt.tokens));
    const Tensor pooled = text_proj_.forward(ops, ops.matmul(prompt.mean, text));
    const float scale = 1.0F / std::sqrt(static_cast<float>(channels_));
    const Tensor logits = ops.matmul(query_proj_.forward(ops, queries), pooled, /*transpose_b=*/true, scale);
    return ops.clamp(logits, -kLimit, kLimit).reshape({queries.dim(0), queries.dim(1)});
}

}  // namespace sam3
