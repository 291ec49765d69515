#pragma once

#include "models/image_model.h"
#include "models/sam1_config.h"
#include "models/sam1_image_encoder.h"

namespace sam3 {

// Segment Anything (SAM 1): an image is encoded once, then each prompt gives a mask and three candidates.
class Sam1 : public ImageModel {
public:
    // `root` has canonical names: see weights/name_maps_sam1.h.
    Sam1(const nn::LoadContext& context, const Scope& root, const Sam1Config& config);

    const Sam1Config& config() const { return config_; }

    const Preprocessing& preprocessing() const override { return preprocessing_; }
    // pixels padded at the bottom and right
    Tensor encode(Ops& ops, const Tensor& pixels) const override;
    const InteractiveHead* interactive_head() const override { return &head_; }
    std::vector<InteractiveFeatures> interactive_features(Ops& ops, const Tensor& trunk) const override;

private:
    Sam1Config config_;
    Preprocessing preprocessing_;
    Sam1ImageEncoder image_encoder_;
    InteractiveHead head_;
};

}  // namespace sam3
