#pragma once

#include "models/interactive_head.h"
#include "models/neck.h"
#include "models/sam3_config.h"

namespace sam3 {

// SAM 3's interactive head on single images: the tracker's neck, prompt encoder and mask decoder, without memory.
class Sam3Interactive {
public:
    // `root` holds tracker_neck and tracker_model.
    Sam3Interactive(const nn::LoadContext& context, const Scope& root, const Sam3Config& config);

    // trunk [N, H, W, C]: the ViT's output of a batch -> one entry per image
    std::vector<InteractiveFeatures> features(Ops& ops, const Tensor& trunk) const;
    const InteractiveHead& head() const { return head_; }

private:
    Neck neck_;
    InteractiveHead head_;
    Tensor no_memory_;  // [C], added where there is no earlier frame; undefined when the behaviour leaves it out
};

}  // namespace sam3
