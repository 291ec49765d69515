#include "models/mask_head.h"

#include "models/neck.h"

namespace sam3 {

namespace {
constexpr int kGroups = 8;

Tensor transposed(const Tensor& matrix) {
    const int64_t rows = matrix.dim(0), columns = matrix.dim(1);
    Tensor out = Tensor::host({columns, rows});
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) out.data<float>()[c * rows + r] = matrix.data<float>()[r * columns + c];
    return out;
}

}  // namespace

// Files carry one convolution more than there are steps between the neck's levels; it is never used.
MaskHead::MaskHead(const nn::LoadContext& context, const Scope& scope, int64_t channels, int heads, int stages)
    : prompt_attention_(context, scope / "prompt_cross_attn", channels, heads),
      prompt_norm_(context, scope / "prompt_cross_attn_norm", channels, nn::kNormEps),
      semantic_(context, scope / "semantic_projection", channels, 1, {.kernel = 1}),
      mask_embed_(context, scope / "mask_embedder" / "layers", {"0", "1", "2"}, channels, channels, channels) {
    const Scope instance = scope / "instance_projection";
    const Tensor weight = instance.tensor("weight", {channels, channels, 1, 1}).reshape({channels, channels});
    instance_weight_ = nn::Linear(context, transposed(weight), Tensor());
    instance_bias_ = nn::Linear(context, instance.tensor("bias", {channels}).reshape({1, channels}), Tensor());
    for (int i = 0; i < std::min(stages, Neck::kLevels - 1); ++i) {
        convs_.emplace_back(context, scope / "pixel_decoder" / "conv_layers" / i, channels, channels,
                            nn::Conv2d::Options{.kernel = 3, .padding = 1});
        norms_.emplace_back(context, scope / "pixel_decoder" / "norms" / i, kGroups, channels, nn::kNormEps);
    }
}

Tensor MaskHead::embed_pixels(Ops& ops, const std::vector<Tensor>& maps, const Tensor& memory,
                              const PromptTokens& prompt) const {
    const Tensor& coarse = maps.back();
    const Tensor tokens = ops.stored(prompt.tokens);
    const Tensor attended = prompt_attention_.forward(ops, prompt_norm_.forward(ops, memory), tokens, tokens, memory,
                                                      {.key_mask = prompt.mask});
    Tensor x = ops.stored(attended).reshape({memory.dim(0), coarse.dim(1), coarse.dim(2), coarse.dim(3)});
    for (size_t i = 0; i < convs_.size(); ++i) {
        const Tensor& skip = maps[maps.size() - 2 - i];
        // The maps here are the largest of the network, so each replaces the one before.
        x = ops.resize_and_add(x, skip, Interpolation::nearest);
        x = convs_[i].forward(ops, x);
        x = norms_[i].forward(ops, x, Activation::relu);
    }
    return x;
}

// Pixels are projected, then multiplied with the masks' embeddings; these are far fewer, so they are projected instead:
// m . (W p + b) = (W^T m) . p + m . b
MaskVectors MaskHead::vectors(Ops& ops, const Tensor& queries) const {
    const Tensor embedded = mask_embed_.forward(ops, queries);
    return {instance_weight_.forward(ops, embedded), instance_bias_.forward(ops, embedded)};
}

Tensor MaskHead::masks(Ops& ops, const Tensor& pixels, const MaskVectors& masks) const {
    const int64_t batch = pixels.dim(0);
    const int64_t height = pixels.dim(1);
    const int64_t width = pixels.dim(2);
    const Tensor logits = ops.matmul(masks.vectors, pixels.reshape({batch, height * width, pixels.dim(3)}),
                                     /*transpose_b=*/true, 1.0F, masks.offsets);
    return logits.reshape({batch, masks.vectors.dim(1), height, width});
}

Tensor MaskHead::semantic(Ops& ops, const Tensor& pixels) const {
    return semantic_.forward(ops, pixels).reshape({pixels.dim(0), pixels.dim(1), pixels.dim(2)});
}

}  // namespace sam3
