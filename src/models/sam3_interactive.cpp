#include "models/sam3_interactive.h"

namespace sam3 {

Sam3Interactive::Sam3Interactive(const nn::LoadContext& context, const Scope& root, const Sam3Config& config)
    : neck_(context, root / "tracker_neck", config.vit.hidden_size, config.neck),
      head_(PromptEncoder(context, root / "tracker_model" / "prompt_encoder", config.tracker.prompt),
            SamMaskDecoder(context, root / "tracker_model" / "mask_decoder", config.tracker.decoder)) {
    const int64_t c = config.neck.hidden_size;
    const Tensor stored = (root / "tracker_model").tensor("no_memory_embedding", {1, 1, c});
    if (config.behaviour.no_memory_on_images) no_memory_ = nn::to_device(context, stored).reshape({c});
}

std::vector<InteractiveFeatures> Sam3Interactive::features(Ops& ops, const Tensor& trunk) const {
    const std::vector<Tensor> out = ops.stage("tracker_neck", {trunk}, [&](const std::vector<Tensor>& in) {
        const std::vector<Tensor> maps = neck_.forward(ops, in[0]);
        std::vector<Tensor> result = head_.decoder().project_high_resolution(ops, maps);
        result.push_back(maps.back());
        result.push_back(no_memory_ ? ops.add(maps.back(), no_memory_) : maps.back());
        for (size_t i = 0; i < maps.size(); ++i) ops.trace("tracker.fpn." + std::to_string(i), maps[i]);
        return result;
    });
    std::vector<InteractiveFeatures> images;
    for (int64_t n = 0; n < trunk.dim(0); ++n)
        images.push_back(
            {out[3].slice(0, n, 1), out[2].slice(0, n, 1), {out[0].slice(0, n, 1), out[1].slice(0, n, 1)}});
    return images;
}

}  // namespace sam3
