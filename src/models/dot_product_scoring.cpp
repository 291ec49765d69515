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

Tensor DotProductScoring::pool(Ops& ops, const PromptTokens& prompt) const {
    const Tensor text = text_norm_.forward(ops, text_mlp_.forward(ops, prompt.tokens, prompt.tokens));
    return text_proj_.forward(ops, ops.matmul(prompt.mean, text));
}

Tensor DotProductScoring::forward(Ops& ops, const Tensor& queries, const Tensor& pooled) const {
    constexpr float kLimit = 12.0F;
    const float scale = 1.0F / std::sqrt(static_cast<float>(channels_));
    const Tensor logits = ops.matmul(query_proj_.forward(ops, queries), pooled, /*transpose_b=*/true, scale);
    return ops.clamp(logits, -kLimit, kLimit).reshape({queries.dim(0), queries.dim(1)});
}

}  // namespace sam3
