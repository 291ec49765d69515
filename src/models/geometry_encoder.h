#pragma once

#include "models/sam3_config.h"
#include "nn/layers.h"

namespace sam3 {

// Exemplars on one image, in normalised coordinates (0 to 1).
struct GeometryPrompt {
    struct Box {
        float cx, cy, w, h;
        bool positive;
    };
    struct Point {
        float x, y;
        bool positive;
    };
    std::vector<Box> boxes;
    std::vector<Point> points;
    bool empty() const { return boxes.empty() && points.empty(); }
};

// Turns exemplar boxes and points into prompt tokens: coordinates, pooled image features and a label embedding are
// added, a CLS token is appended, and a few layers attend to each other and to the image.
class GeometryEncoder {
public:
    GeometryEncoder() = default;
    GeometryEncoder(const nn::LoadContext& context, const Scope& scope, const StackConfig& config, int roi_size);

    bool has_points() const { return has_points_; }  // Hugging Face's files do not carry the point weights

    // features [1, H, W, C], positions [H*W, C] -> [1, points + boxes + 1, C]; without a prompt of any number of images
    Tensor forward(Ops& ops, const Tensor& features, const Tensor& positions, const GeometryPrompt& prompt) const;

private:
    struct Layer {
        nn::LayerNorm norm1, norm2, norm3;
        nn::SelfAttention self_attention;
        nn::Attention cross_attention;
        nn::Mlp mlp;
    };
    Tensor encode_boxes(Ops& ops, const Tensor& normed, const std::vector<GeometryPrompt::Box>& boxes) const;
    Tensor encode_points(Ops& ops, const Tensor& normed, const std::vector<GeometryPrompt::Point>& points) const;

    int64_t channels_ = 0;
    int roi_size_ = 0;
    bool has_points_ = false;
    Tensor label_embed_, cls_embed_;
    nn::Linear box_direct_, box_position_, point_direct_, point_pool_, point_position_;
    nn::Conv2d box_pool_;
    nn::LayerNorm vision_norm_, prompt_norm_, output_norm_;
    nn::Linear final_proj_;
    std::vector<Layer> layers_;
    nn::StackedKeys keys_, values_;  // of the image, for all layers
};

}  // namespace sam3
