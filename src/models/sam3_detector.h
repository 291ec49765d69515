#pragma once

#include "models/detr_decoder.h"
#include "models/dot_product_scoring.h"
#include "models/fusion_encoder.h"
#include "models/geometry_encoder.h"
#include "models/mask_head.h"
#include "models/neck.h"
#include "models/sam3_config.h"
#include "models/text_encoder.h"
#include "util/size_cache.h"

namespace sam3 {

// What the detector knows of a batch of images before it has heard a prompt: its neck's maps, finest first.
struct DetectorFeatures {
    std::vector<Tensor> maps;  // [N, 4H, 4W, D], [N, 2H, 2W, D], [N, H, W, D]
    Tensor begun;              // [N, H*W, D]: the fusion encoder's first step on the coarsest map
    Tensor unprompted;         // [N, 1, D]: what the geometry encoder says without a prompt, where that is wanted

    DetectorFeatures image(int64_t index) const;  // views of one image of the batch
};

// One prompt's tokens before they are padded to a batch.
struct PromptPart {
    Tensor text;             // [T, D]
    int64_t text_valid = 0;  // leading tokens that are real
    Tensor geometry;         // [1, G, D] or undefined
};

// SAM 3's concept detector: image features and a prompt in, boxes, scores and masks out.
class Sam3Detector {
public:
    struct Output {
        Tensor logits;      // [B, Q]
        Tensor presence;    // [B, 1]
        Tensor boxes;       // [B, Q, 4] cxcywh
        MaskVectors masks;  // of all queries
        Tensor pixels;      // [B, 4H, 4W, D]

        // What is needed of one row of the batch for the masks of some queries: ids i32 [1, K].
        MaskVectors chosen(Ops& ops, int64_t row, const Tensor& ids) const;
    };

    Sam3Detector(const nn::LoadContext& context, const Scope& root, const Sam3Config& config);

    const Sam3Config& config() const { return config_; }
    bool has_point_exemplars() const { return geometry_encoder_.has_points(); }

    // trunk [N, H, W, C]: the image encoder's output
    DetectorFeatures features(Ops& ops, const Tensor& trunk) const;
    // ids i32 [N, T], mask u8 [N, T], both in host memory -> [N, T, D]
    Tensor encode_text(Ops& ops, const Tensor& ids, const Tensor& mask) const;
    // features of one image -> [1, G, D]
    Tensor encode_geometry(Ops& ops, const DetectorFeatures& features, const GeometryPrompt& prompt) const;

    PromptTokens join(Ops& ops, const std::vector<PromptPart>& parts) const;
    // features of one image, shared by all prompts, or of one image per prompt
    Output detect(Ops& ops, const DetectorFeatures& features, const PromptTokens& prompt) const;

    // pixels [B, h, w, D] of an output, and what makes masks of them, all or a selection -> logits [B, K, h, w]
    Tensor masks(Ops& ops, const Tensor& pixels, const MaskVectors& masks) const;
    Tensor semantic(Ops& ops, const Tensor& pixels) const;  // [B, h, w] logits

private:
    std::shared_ptr<const Tensor> positions_for(Ops& ops, int64_t height, int64_t width) const;

    Sam3Config config_;
    Neck neck_;
    TextEncoder text_encoder_;
    GeometryEncoder geometry_encoder_;
    FusionEncoder fusion_encoder_;
    DetrDecoder decoder_;
    DotProductScoring scoring_;
    MaskHead mask_head_;
    SizeCache<Tensor> positions_;
};

}  // namespace sam3
