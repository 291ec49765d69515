#pragma once

#include "models/sam3_config.h"
#include "nn/layers.h"

#include <optional>

namespace sam3 {

// The simple feature pyramid: the ViT's single map brought to three scales, each projected to the detector's width.
// Detector and tracker have a neck each, with their own weights. Coarser levels in a file are never used.
class Neck {
public:
    static constexpr int kLevels = 3;

    Neck() = default;
    Neck(const nn::LoadContext& context, const Scope& scope, int64_t in, const NeckConfig& config);

    // [N, H, W, C] -> three maps, finest first: [N, 4H, 4W, D], [N, 2H, 2W, D], [N, H, W, D]
    std::vector<Tensor> forward(Ops& ops, const Tensor& x) const;
    Tensor level(Ops& ops, const Tensor& x, int index) const;  // one of them

private:
    struct Level {
        std::vector<nn::ConvTranspose2x2> upsample;
        bool pool = false;
        std::optional<nn::Conv2d> proj1;  // none where the last upsampling does its work
        nn::Conv2d proj2;
    };
    std::vector<Level> levels_;
};

}  // namespace sam3
