#pragma once

#include "nn/layers.h"
#include "util/size_cache.h"

#include <optional>
#include <vector>

namespace sam3 {

struct PromptEncoderConfig {
    int64_t hidden_size = 256;
    int64_t mask_channels = 16;
    bool box_padding_point = true;  // SAM 2 and 3 append an empty point to a box, SAM 1 does not
    int empty_points = 2;           // that stand for a prompt with neither points nor box; SAM 1 has none
    float norm_eps = 1e-6F;
    Activation activation = Activation::gelu;
};

// What a person points at, for one object; coordinates are in pixels of the network's square input.
struct VisualPrompt {
    struct Point {
        float x, y;
        bool positive;
    };
    struct Box {
        float x0, y0, x1, y1;
    };
    std::vector<Point> points;
    std::optional<Box> box;
};

// SAM's prompt encoder: points and boxes become tokens by random Fourier features and a learned label, a mask becomes a
// map that is added to the image's.
class PromptEncoder {
public:
    struct Tokens {
        Tensor tokens;  // [B, T, C]
        Tensor mask;    // u8 [B, T]; undefined when all are real
    };

    PromptEncoder() = default;
    PromptEncoder(const nn::LoadContext& context, const Scope& scope, const PromptEncoderConfig& config);

    // Points, box corners and the empty points that the family adds; padded to the longest of the batch. T may be 0.
    Tokens encode(Ops& ops, const std::vector<VisualPrompt>& prompts, int64_t image_size) const;
    // Low-resolution mask logits [B, 4H, 4W, 1] -> [B, H*W, C]
    Tensor encode_masks(Ops& ops, const Tensor& masks) const;
    // The stand-in for a mask: [1, 1, C]
    const Tensor& no_mask() const { return no_mask_; }
    // Encoding of the image's own grid: [H*W, C]
    std::shared_ptr<const Tensor> grid(Ops& ops, int64_t height, int64_t width) const;

private:
    void encode_point(float x, float y, float* out) const;  // coordinates in 0..1

    PromptEncoderConfig config_;
    Tensor gaussian_;     // host [2, C / 2]
    Tensor point_embed_;  // host [4, C]: negative, positive, top left, bottom right
    Tensor not_a_point_;  // host [1, C]
    Tensor no_mask_;      // [1, 1, C]
    nn::Conv2d conv1_, conv2_, conv3_;
    nn::LayerNorm norm1_, norm2_;
    SizeCache<Tensor> grids_;
};

}  // namespace sam3
