#pragma once

#include "models/image_model.h"
#include "models/memory_tracker.h"
#include "models/sam3_detector.h"
#include "models/sam3_interactive.h"
#include "models/vit.h"

#include <optional>

namespace sam3 {

// SAM 3: one image encoder, the concept detector and the interactive head on top of it, and the memory that makes the
// head a tracker. A file may lack any of the three.
class Sam3 : public ImageModel {
public:
    // `root` has canonical names; config says which heads are there.
    Sam3(const nn::LoadContext& context, const Scope& root, const Sam3Config& config);

    const Preprocessing& preprocessing() const override { return preprocessing_; }
    Tensor encode(Ops& ops, const Tensor& pixels) const override;
    const InteractiveHead* interactive_head() const override { return interactive_ ? &interactive_->head() : nullptr; }
    std::vector<InteractiveFeatures> interactive_features(Ops& ops, const Tensor& trunk) const override;
    StabilityRule stability_rule() const override;
    const MemoryTracker* tracker() const override { return memory_ ? &*memory_ : nullptr; }
    const Sam3Detector* detector() const override { return detector_ ? &*detector_ : nullptr; }

private:
    Preprocessing preprocessing_;
    TrackerConfig tracker_;
    Vit vit_;
    std::optional<Sam3Detector> detector_;
    std::optional<Sam3Interactive> interactive_;
    std::optional<MemoryTracker> memory_;
};

}  // namespace sam3
