#pragma once

#include "models/two_way_transformer.h"
#include "nn/layers.h"

namespace sam3 {

struct SamMaskDecoderConfig {
    TwoWayConfig transformer{};
    int multimask_outputs = 3;
    int iou_head_depth = 3;
    int64_t iou_head_hidden = 256;
    bool high_resolution = true;  // SAM 2 and 3 add the finer maps while upscaling, SAM 1 does not
    bool object_score = true;     // SAM 2 and 3 say whether the object is there at all
    bool iou_sigmoid = true;
};

// SAM's mask decoder: from an image embedding and prompt tokens to 1 + 3 mask candidates with their predicted quality.
class SamMaskDecoder {
public:
    struct Output {
        Tensor masks;         // [B, 1 + M, 4H, 4W] logits: the single mask, then the candidates
        Tensor iou;           // [B, 1 + M]
        Tensor object_score;  // [B, 1] logit; undefined without the head
        Tensor mask_tokens;   // [B, 1 + M, C]
    };

    SamMaskDecoder() = default;
    SamMaskDecoder(const nn::LoadContext& context, const Scope& scope, const SamMaskDecoderConfig& config);

    // The neck's two finer maps brought to the decoder's widths, once per image; empty without high resolution.
    std::vector<Tensor> project_high_resolution(Ops& ops, const std::vector<Tensor>& maps) const;

    // image [1 or B, H, W, C] without the dense prompt; dense [1 or B, 1 or H*W, C]; positions [H*W, C]
    TwoWayTransformer::Image prepare(Ops& ops, const Tensor& image, const Tensor& dense, const Tensor& positions) const;
    // sparse [B, T, C], its mask u8 [B, T] or undefined; fine: from project_high_resolution
    Output forward(Ops& ops, const TwoWayTransformer::Image& image, int64_t height, int64_t width,
                   const Tensor& positions, const Tensor& sparse, const Tensor& sparse_mask,
                   const std::vector<Tensor>& fine) const;

    int candidates() const { return config_.multimask_outputs; }

private:
    Output decode(Ops& ops, const TwoWayTransformer::Image& image, int64_t height, int64_t width,
                  const Tensor& positions, const Tensor& sparse, const Tensor& sparse_mask,
                  const std::vector<Tensor>& fine) const;

    SamMaskDecoderConfig config_;
    Tensor output_tokens_;  // [1, (object score) + iou + masks, C]
    TwoWayTransformer transformer_;
    nn::ConvTranspose2x2 upscale1_, upscale2_;
    nn::LayerNorm upscale_norm_;
    nn::Conv2d fine0_, fine1_;
    std::vector<nn::MlpHead> hypernetworks_;
    nn::MlpHead iou_head_, object_score_head_;
};

}  // namespace sam3
