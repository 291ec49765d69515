#include "models/sam3.h"

namespace sam3 {

Sam3::Sam3(const nn::LoadContext& context, const Scope& root, const Sam3Config& config)
    : preprocessing_{config.vit.image_size, config.vit.patch_size, false, config.image_mean, config.image_std},
      tracker_(config.tracker),
      vit_(context, root / "detector_model" / "vision_encoder" / "backbone", config.vit,
           config.behaviour.vit_norm_eps) {
    if (config.has_detector) detector_.emplace(context, root / "detector_model", config);
    if (config.has_tracker) interactive_.emplace(context, root, config);
    if (config.has_tracker && config.has_memory)
        memory_.emplace(context, root / "tracker_model", config.neck.hidden_size, config.tracker.memory,
                        interactive_->head(), stability_rule());
}

Tensor Sam3::encode(Ops& ops, const Tensor& pixels) const {
    ops.trace("pixel_values", pixels);
    const Tensor trunk = ops.stage("image_encoder", {pixels}, [&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{vit_.forward(ops, in[0])};
    })[0];
    ops.trace("vision.backbone", trunk);
    return trunk;
}

std::vector<InteractiveFeatures> Sam3::interactive_features(Ops& ops, const Tensor& trunk) const {
    return interactive_->features(ops, trunk);
}

StabilityRule Sam3::stability_rule() const {
    return {tracker_.dynamic_multimask, tracker_.stability_delta, tracker_.stability_threshold};
}

}  // namespace sam3
