#pragma once

#include "models/image_model.h"
#include "models/prompt_encoder.h"
#include "models/sam1_config.h"
#include "models/sam1_image_encoder.h"
#include "models/sam_mask_decoder.h"

namespace sam3 {

// Segment Anything (SAM 1): an image is encoded once, then each prompt gives a mask and three candidates.
class Sam1 : public ImageModel {
public:
    // `root` has canonical names: see weights/name_maps_sam1.h.
    Sam1(const nn::LoadContext& context, const Scope& root, const Sam1Config& config);

    const Sam1Config& config() const { return config_; }

    const Preprocessing& preprocessing() const override { return preprocessing_; }
    Tensor encode(Ops& ops, const Tensor& pixels) const override { return encode_image(ops, pixels); }
    const InteractiveHead* interactive_head() const override { return &head_; }
    std::vector<InteractiveFeatures> interactive_features(Ops& ops, const Tensor& trunk) const override;

    // pixels [N, S, S, 3], normalised, padded at the bottom and right -> [N, S/p, S/p, C]
    Tensor encode_image(Ops& ops, const Tensor& pixels) const;

    // One object a prompt; coordinates in pixels of the network's input. The embedding [1 or B, H, W, C] is of one
    // image for all prompts or of one image each. masks: logits of an earlier answer [1 or B, 4H, 4W, 1] or undefined.
    // Of the result, mask 0 is the single answer, the others are the candidates of an ambiguous prompt.
    SamMaskDecoder::Output decode(Ops& ops, const Tensor& embedding, const std::vector<VisualPrompt>& prompts,
                                  const Tensor& masks = {}) const;

private:
    Sam1Config config_;
    Preprocessing preprocessing_;
    Sam1ImageEncoder image_encoder_;
    PromptEncoder prompt_encoder_;
    SamMaskDecoder mask_decoder_;
    InteractiveHead head_;  // shares their weights
};

}  // namespace sam3
