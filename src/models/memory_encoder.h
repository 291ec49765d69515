#pragma once

#include "models/memory_config.h"
#include "nn/layers.h"

#include <vector>

namespace sam3 {

// Turns a mask and the frame it lies on into memory tokens: the mask is brought down to the features' grid by strided
// convolutions, added to them, and mixed by ConvNeXt blocks.
class MemoryEncoder {
public:
    MemoryEncoder() = default;
    MemoryEncoder(const nn::LoadContext& context, const Scope& scope, int64_t channels, const MemoryConfig& config);

    // map [1, H, W, C]; masks [B, s*H, s*W, 1] with s the total stride, scaled -> [B, H*W, M]
    Tensor forward(Ops& ops, const Tensor& map, const Tensor& masks) const;

private:
    Tensor encode(Ops& ops, const Tensor& map, const Tensor& masks) const;

    struct Downsample {
        nn::Conv2d conv;
        nn::LayerNorm norm;
    };
    struct FuserBlock {
        nn::Conv2d depthwise;
        nn::LayerNorm norm;
        nn::Linear widen, narrow;  // the layer scale is folded into `narrow`
    };

    MemoryConfig config_;
    std::vector<Downsample> downsamples_;
    nn::Conv2d mask_projection_, feature_projection_, out_projection_;
    std::vector<FuserBlock> fuser_;
};

}  // namespace sam3
