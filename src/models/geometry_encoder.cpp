#include "models/geometry_encoder.h"

#include "nn/position.h"
#include "util/error.h"

namespace sam3 {

namespace {

// A host tensor filled row by row.
class Rows {
public:
    Rows(int64_t count, int64_t width, DType type = DType::f32) : tensor_(Tensor::host({count, width}, type)) {}
    void push(float value) { tensor_.data<float>()[next_++] = value; }
    void push_sine(float value, int64_t size) {
        nn::sine_encode(value, size, tensor_.data<float>() + next_);
        next_ += size;
    }
    const Tensor& tensor() const { return tensor_; }

private:
    Tensor tensor_;
    int64_t next_ = 0;
};

template <typename Items>
Tensor labels_of(Ops& ops, const Items& items) {
    Tensor ids = Tensor::host({1, static_cast<int64_t>(items.size())}, DType::i32);
    for (size_t i = 0; i < items.size(); ++i) ids.data<int32_t>()[i] = items[i].positive ? 1 : 0;
    return ops.upload(ids);
}

}  // namespace

GeometryEncoder::GeometryEncoder(const nn::LoadContext& context, const Scope& scope, const StackConfig& config,
                                 int roi_size)
    : channels_(config.hidden_size),
      roi_size_(roi_size),
      has_points_((scope / "points_direct_project").has("weight")),
      label_embed_(nn::to_device(context, (scope / "label_embed").tensor("weight", {2, config.hidden_size}))),
      cls_embed_(nn::to_device(context, (scope / "cls_embed").tensor("weight", {1, config.hidden_size}))),
      box_direct_(context, scope / "boxes_direct_project", 4, config.hidden_size),
      box_position_(context, scope / "boxes_pos_enc_project", config.hidden_size + 2, config.hidden_size),
      box_pool_(context, scope / "boxes_pool_project", config.hidden_size, config.hidden_size, {.kernel = roi_size}),
      vision_norm_(context, scope / "vision_layer_norm", config.hidden_size, nn::kNormEps),
      prompt_norm_(context, scope / "prompt_layer_norm", config.hidden_size, nn::kNormEps),
      output_norm_(context, scope / "output_layer_norm", config.hidden_size, nn::kNormEps),
      final_proj_(context, scope / "final_proj", config.hidden_size, config.hidden_size) {
    const int64_t c = channels_;
    if (has_points_) {
        point_direct_ = nn::Linear(context, scope / "points_direct_project", 2, c);
        point_pool_ = nn::Linear(context, scope / "points_pool_project", c, c);
        point_position_ = nn::Linear(context, scope / "points_pos_enc_project", c, c);
    }
    std::vector<Scope> cross;
    for (int i = 0; i < config.layers; ++i) {
        const Scope layer = scope / "layers" / i;
        cross.push_back(layer / "cross_attn");
        layers_.push_back({nn::LayerNorm(context, layer / "layer_norm1", c, nn::kNormEps),
                           nn::LayerNorm(context, layer / "layer_norm2", c, nn::kNormEps),
                           nn::LayerNorm(context, layer / "layer_norm3", c, nn::kNormEps),
                           nn::SelfAttention(context, layer / "self_attn", c, config.heads),
                           nn::Attention(context, cross.back(), c, {.heads = config.heads, .own_keys = false}),
                           nn::Mlp(context, layer / "mlp", c, config.mlp_size, config.activation)});
    }
    keys_ = nn::StackedKeys(context, cross, "k_proj", c);
    values_ = nn::StackedKeys(context, cross, "v_proj", c);
}

Tensor GeometryEncoder::encode_boxes(Ops& ops, const Tensor& normed,
                                     const std::vector<GeometryPrompt::Box>& boxes) const {
    const auto count = static_cast<int64_t>(boxes.size());
    const auto height = static_cast<float>(normed.dim(1));
    const auto width = static_cast<float>(normed.dim(2));
    Rows direct(count, 4);
    Rows position(count, channels_ + 2);
    Rows roi(count, 5);
    for (const auto& box : boxes) {
        for (const float value : {box.cx, box.cy, box.w, box.h}) direct.push(value);
        position.push_sine(box.cy, channels_ / 2);
        position.push_sine(box.cx, channels_ / 2);
        position.push(box.h);
        position.push(box.w);
        roi.push(0);
        roi.push((box.cx - 0.5F * box.w) * width);
        roi.push((box.cy - 0.5F * box.h) * height);
        roi.push((box.cx + 0.5F * box.w) * width);
        roi.push((box.cy + 0.5F * box.h) * height);
    }
    const Tensor pooled = ops.roi_align(normed, ops.upload(roi.tensor()), roi_size_, roi_size_);
    Tensor x = box_pool_.forward(ops, pooled).reshape({count, channels_});
    x = box_direct_.forward(ops, ops.upload(direct.tensor()), Activation::none, x);
    x = box_position_.forward(ops, ops.upload(position.tensor()), Activation::none, x);
    return ops.add(x.unsqueeze(0), ops.embedding(label_embed_, labels_of(ops, boxes)));
}

Tensor GeometryEncoder::encode_points(Ops& ops, const Tensor& normed,
                                      const std::vector<GeometryPrompt::Point>& points) const {
    if (!has_points_)
        fail("this model file has no weights for point exemplars (Hugging Face's files leave them out): use a box");
    const auto count = static_cast<int64_t>(points.size());
    Rows direct(count, 2);
    Rows position(count, channels_);
    Rows grid(count, 2);
    for (const auto& point : points) {
        direct.push(point.x);
        direct.push(point.y);
        position.push_sine(point.x, channels_ / 2);
        position.push_sine(point.y, channels_ / 2);
        grid.push(2.0F * point.x - 1.0F);
        grid.push(2.0F * point.y - 1.0F);
    }
    const Tensor sampled = ops.grid_sample(normed, ops.upload(grid.tensor()).unsqueeze(0)).reshape({count, channels_});
    Tensor x = point_pool_.forward(ops, sampled);
    x = point_direct_.forward(ops, ops.upload(direct.tensor()), Activation::none, x);
    x = point_position_.forward(ops, ops.upload(position.tensor()), Activation::none, x);
    return ops.add(x.unsqueeze(0), ops.embedding(label_embed_, labels_of(ops, points)));
}

Tensor GeometryEncoder::forward(Ops& ops, const Tensor& features, const Tensor& positions,
                                const GeometryPrompt& prompt) const {
    std::vector<Tensor> tokens;
    if (!prompt.empty()) {
        const Tensor normed = vision_norm_.forward(ops, features);
        if (!prompt.points.empty()) tokens.push_back(encode_points(ops, normed, prompt.points));
        if (!prompt.boxes.empty()) tokens.push_back(encode_boxes(ops, normed, prompt.boxes));
    }
    tokens.push_back(cls_embed_.unsqueeze(0));
    const int64_t images = features.dim(0);
    Tensor x = prompt_norm_.forward(ops, final_proj_.forward(ops, ops.concat(tokens, 1)));
    if (images > 1) x = ops.contiguous(x.expand(0, images));

    const Tensor tokens_of_image = features.reshape({images, features.dim(1) * features.dim(2), channels_});
    return ops.stage("geometry_layers", {x, tokens_of_image}, [&](const std::vector<Tensor>& in) {
        const std::vector<Tensor> keys = keys_.forward(ops, ops.stored_sum(in[1], positions));
        const std::vector<Tensor> values = values_.forward(ops, in[1]);
        Tensor y = in[0];
        for (size_t i = 0; i < layers_.size(); ++i) {
            const Layer& layer = layers_[i];
            const Tensor h = layer.norm1.forward(ops, y);
            y = layer.self_attention.forward(ops, h, h, y);
            const Tensor query = layer.cross_attention.project_query(ops, layer.norm2.forward(ops, y));
            y = layer.cross_attention.attend(ops, query, keys[i], values[i], y);
            y = layer.mlp.forward(ops, layer.norm3.forward(ops, y), y);
        }
        return std::vector<Tensor>{output_norm_.forward(ops, y)};
    })[0];
}

}  // namespace sam3
