#include "models/detr_decoder.h"

#include <cstring>
#include <numbers>
#include <tuple>

namespace sam3 {

namespace {

// Columns of the reference's first position layer are ordered y, x, w, h; boxes are x, y, w, h. Swapping the weights
// once spares a shuffle per layer.
nn::Linear position_layer(const nn::LoadContext& context, const Scope& scope, int64_t channels) {
    const Tensor stored = scope.tensor("weight", {channels, 2 * channels});
    const int64_t block = channels / 2;
    Tensor weight = Tensor::host(stored.shape());
    constexpr int64_t kSource[4] = {1, 0, 2, 3};
    for (int64_t row = 0; row < channels; ++row)
        for (int64_t i = 0; i < 4; ++i)
            std::memcpy(weight.data<float>() + (row * 4 + i) * block,
                        stored.data<float>() + (row * 4 + kSource[i]) * block,
                        static_cast<size_t>(block) * sizeof(float));
    return nn::Linear(context, weight, scope.tensor("bias", {channels}));
}

constexpr auto kStream = nn::LayerNorm::Result::stream;

BoxBiasWeights bias_weights(const nn::LoadContext& context, const Scope& scope, int64_t channels, int heads) {
    const auto load = [&](const Scope& layer, const char* name, const Shape& shape) {
        return nn::to_device(context, layer.tensor(name, shape));
    };
    const Scope hidden = scope / "layer1";
    const Scope output = scope / "layer2";
    return {load(hidden, "weight", {channels, 2}), load(hidden, "bias", {channels}),
            load(output, "weight", {heads, channels}), load(output, "bias", {heads})};
}

}  // namespace

DetrDecoder::DetrDecoder(const nn::LoadContext& context, const Scope& scope, const StackConfig& config, int64_t queries)
    : config_(config),
      queries_(queries),
      output_norm_(context, scope / "output_layer_norm", config.hidden_size, nn::kNormEps),
      presence_norm_(context, scope / "presence_layer_norm", config.hidden_size, nn::kNormEps) {
    const int64_t c = config.hidden_size;
    const std::vector<std::string> three = {"layer1", "layer2", "layer3"};
    box_head_ = nn::MlpHead(context, scope / "box_head", three, c, c, 4);
    presence_head_ = nn::MlpHead(context, scope / "presence_head", three, c, c, 1);
    bias_x_ = bias_weights(context, scope / "box_rpb_embed_x", c, config.heads);
    bias_y_ = bias_weights(context, scope / "box_rpb_embed_y", c, config.heads);
    position_head_ = nn::MlpHead({position_layer(context, scope / "ref_point_head" / "layer1", c),
                                  nn::Linear(context, scope / "ref_point_head" / "layer2", c, c)});

    Tensor tokens = Tensor::host({1, queries + 1, c});
    const size_t row = static_cast<size_t>(c) * sizeof(float);
    std::memcpy(tokens.raw(), (scope / "presence_token").tensor("weight", {1, c}).raw(), row);
    std::memcpy(tokens.data<float>() + c, (scope / "query_embed").tensor("weight", {queries, c}).raw(),
                static_cast<size_t>(queries) * row);
    initial_tokens_ = nn::to_device(context, tokens);
    initial_boxes_ =
        nn::to_device(context, (scope / "reference_points").tensor("weight", {queries, 4})).reshape({1, queries, 4});

    const nn::Attention::Options cross{.heads = config.heads, .own_keys = false};
    std::vector<Scope> text, vision;
    for (int i = 0; i < config.layers; ++i) {
        const Scope layer = scope / "layers" / i;
        text.push_back(layer / "text_cross_attn");
        vision.push_back(layer / "vision_cross_attn");
        layers_.push_back({nn::SelfAttention(context, layer / "self_attn", c, config.heads),
                           nn::Attention(context, text.back(), c, cross),
                           nn::Attention(context, vision.back(), c, cross),
                           nn::LayerNorm(context, layer / "self_attn_layer_norm", c, nn::kNormEps, kStream),
                           nn::LayerNorm(context, layer / "text_cross_attn_layer_norm", c, nn::kNormEps, kStream),
                           nn::LayerNorm(context, layer / "vision_cross_attn_layer_norm", c, nn::kNormEps, kStream),
                           nn::LayerNorm(context, layer / "mlp_layer_norm", c, nn::kNormEps, kStream),
                           nn::Mlp(context, layer / "mlp", c, config.mlp_size, config.activation)});
    }
    text_keys_ = nn::StackedKeys(context, text, "k_proj", c);
    text_values_ = nn::StackedKeys(context, text, "v_proj", c);
    vision_keys_ = nn::StackedKeys(context, vision, "k_proj", c);
    vision_values_ = nn::StackedKeys(context, vision, "v_proj", c);
}

// positions [B, Q, C]
void DetrDecoder::place_queries(Ops& ops, const Tensor& boxes, const Tensor& positions) const {
    const int64_t c = config_.hidden_size;
    constexpr float kTwoPi = 2.0F * std::numbers::pi_v<float>;
    const Tensor sines = ops.sine_embed(boxes, static_cast<int>(c / 2), 10000.0F, kTwoPi);
    position_head_.forward_to(ops, positions, sines.reshape({boxes.dim(0), queries_, 2 * c}));
}

// Post-norm.
DetrDecoder::Placed DetrDecoder::look_at_each_other(Ops& ops, const Layer& layer, const Tensor& x,
                                                    const Tensor& places) {
    const Tensor placed = ops.stored_sum(x, places);
    return layer.self_norm.forward_placed(ops, layer.self_attention.forward(ops, placed, x, x), places);
}

DetrDecoder::Looking DetrDecoder::look_at_text(Ops& ops, const Layer& layer, const Placed& queries,
                                               const Tensor& places, const KeysValues& text, const Tensor& mask) {
    const Tensor q = layer.text_attention.project_query(ops, queries.second);
    const auto [x, placed] = layer.text_norm.forward_placed(
        ops, layer.text_attention.attend(ops, q, text.keys, text.values, queries.first, {.key_mask = mask}), places);
    return {x, layer.vision_attention.project_query(ops, placed)};
}

Tensor DetrDecoder::look_at_image(Ops& ops, const Layer& layer, const Looking& queries, const KeysValues& image,
                                  const AttentionOptions& bias) {
    const auto [seeing, stored] = layer.vision_norm.forward_stored(
        ops, layer.vision_attention.attend(ops, queries.query, image.keys, image.values, queries.x, bias));
    return layer.mlp_norm.forward(ops, layer.mlp.forward(ops, stored, seeing));
}

std::shared_ptr<const DetrDecoder::Beginning> DetrDecoder::beginning_for(Ops& ops, int64_t height,
                                                                         int64_t width) const {
    return beginnings_.get(height, width, [&] {
        Beginning begun;
        begun.boxes = ops.unary(initial_boxes_, Unary::sigmoid);
        begun.places = ops.full(initial_tokens_.shape(), 0.0F);  // the presence token comes first and has no place: 0
        place_queries(ops, begun.boxes, begun.places.slice(1, 1, queries_));
        std::tie(begun.x, begun.placed) = look_at_each_other(ops, layers_.front(), initial_tokens_, begun.places);
        begun.seen = see_boxes(ops, begun.boxes, height, width);
        return begun;
    });
}

DetrDecoder::SeenBoxes DetrDecoder::see_boxes(Ops& ops, const Tensor& boxes, int64_t height, int64_t width) const {
    return {ops.box_bias(boxes, bias_x_, bias_y_, height, width), ops.unary(boxes, Unary::inverse_sigmoid)};
}

DetrDecoder::TextMemory DetrDecoder::read_text(Ops& ops, const PromptTokens& prompt) const {
    const Tensor tokens = ops.stored(prompt.tokens);
    return {text_keys_.forward(ops, tokens), text_values_.forward(ops, tokens), prompt.mask};
}

DetrDecoder::Output DetrDecoder::forward(Ops& ops, const Beginning& beginning, const Tensor& memory,
                                         const Tensor& positions, const TextMemory& text, int64_t height,
                                         int64_t width) const {
    const int64_t batch = memory.dim(0);
    const auto for_each = [&](const Tensor& one) { return ops.contiguous(one.expand(0, batch)); };
    // What is needed to look at the image, first of all layers, then of each, is made while the queries look elsewhere.
    const auto [vision_keys, vision_values] = ops.beside([&] {
        return std::make_pair(vision_keys_.forward(ops, ops.stored_sum(memory, positions)),
                              vision_values_.forward(ops, memory));
    });
    Tensor boxes = for_each(beginning.boxes);
    SeenBoxes seen{
        {.bias_rows = for_each(beginning.seen.bias.bias_rows), .bias_cols = for_each(beginning.seen.bias.bias_cols)},
        for_each(beginning.seen.logits)};
    Placed queries = {for_each(beginning.x), for_each(beginning.placed)};
    Tensor places = for_each(beginning.places);
    Output out;
    for (size_t i = 0; i < layers_.size(); ++i) {
        if (i == 1) places = ops.full(out.x.shape(), 0.0F);
        if (i > 0) {
            place_queries(ops, boxes, places.slice(1, 1, queries_));
            queries = look_at_each_other(ops, layers_[i], out.x, places);
        }
        const Looking looking =
            look_at_text(ops, layers_[i], queries, places, {text.keys[i], text.values[i]}, text.mask);
        ops.join();
        out.x = look_at_image(ops, layers_[i], looking, {vision_keys[i], vision_values[i]}, seen.bias);
        ops.trace("decoder.layer." + std::to_string(i), out.x);
        out.queries = output_norm_.forward(ops, out.x.slice(1, 1, queries_));
        boxes = ops.unary(box_head_.forward(ops, out.queries, seen.logits), Unary::sigmoid);
        if (i + 1 < layers_.size()) seen = ops.beside([&] { return see_boxes(ops, boxes, height, width); });
    }
    out.boxes = boxes;
    return out;
}

Tensor DetrDecoder::presence(Ops& ops, const Output& decoded) const {
    const Tensor token = presence_norm_.forward(ops, decoded.x.slice(1, 0, 1));
    return presence_head_.forward(ops, token).reshape({decoded.x.dim(0), 1});
}

}  // namespace sam3
