#include "models/sam1.h"

namespace sam3 {

Sam1::Sam1(const nn::LoadContext& context, const Scope& root, const Sam1Config& config)
    : config_(config),
      preprocessing_{config.vision.image_size, config.vision.patch_size, true, config.image_mean, config.image_std},
      image_encoder_(context, root / "vision_encoder", config.vision),
      head_(PromptEncoder(context, root / "prompt_encoder", config.prompt),
            SamMaskDecoder(context, root / "mask_decoder", config.decoder)) {}

std::vector<InteractiveFeatures> Sam1::interactive_features(Ops&, const Tensor& trunk) const {
    std::vector<InteractiveFeatures> images;
    for (int64_t n = 0; n < trunk.dim(0); ++n) images.push_back({trunk.slice(0, n, 1), {}, {}});
    return images;
}

Tensor Sam1::encode(Ops& ops, const Tensor& pixels) const {
    return ops.stage("image_encoder", {pixels}, [&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{image_encoder_.forward(ops, in[0])};
    })[0];
}

}  // namespace sam3
