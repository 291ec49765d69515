#include "models/sam_mask_decoder.h"

#include <cstddef>
#include <cstring>

namespace sam3 {

namespace {

std::vector<std::string> feed_forward_names(int depth) {
    std::vector<std::string> names = {"proj_in"};
    for (int i = 0; i < depth - 2; ++i) names.push_back("layers." + std::to_string(i));
    names.emplace_back("proj_out");
    return names;
}

}  // namespace

SamMaskDecoder::SamMaskDecoder(const nn::LoadContext& context, const Scope& scope, const SamMaskDecoderConfig& config)
    : config_(config), transformer_(context, scope / "transformer", config.transformer) {
    const int64_t c = config.transformer.hidden_size;
    const int64_t masks = config.multimask_outputs + 1;

    std::vector<Tensor> tokens;
    if (config.object_score) tokens.push_back((scope / "obj_score_token").tensor("weight", {1, c}));
    tokens.push_back((scope / "iou_token").tensor("weight", {1, c}));
    tokens.push_back((scope / "mask_tokens").tensor("weight", {masks, c}));
    int64_t count = 0;
    for (const Tensor& token : tokens) count += token.dim(0);
    Tensor all = Tensor::host({1, count, c});
    auto* out = all.data<float>();
    for (const Tensor& token : tokens) {
        std::memcpy(out, token.raw(), static_cast<size_t>(token.numel()) * sizeof(float));
        out += token.numel();
    }
    output_tokens_ = nn::to_device(context, all);

    upscale1_ = nn::ConvTranspose2x2(context, scope / "upscale_conv1", c, c / 4);
    upscale2_ = nn::ConvTranspose2x2(context, scope / "upscale_conv2", c / 4, c / 8);
    upscale_norm_ = nn::LayerNorm(context, scope / "upscale_layer_norm", c / 4, 1e-6F);
    if (config.high_resolution) {
        fine0_ = nn::Conv2d(context, scope / "conv_s0", c, c / 8, {.kernel = 1});
        fine1_ = nn::Conv2d(context, scope / "conv_s1", c, c / 4, {.kernel = 1});
    }
    for (int64_t i = 0; i < masks; ++i)
        hypernetworks_.emplace_back(context, scope / "output_hypernetworks_mlps" / i, feed_forward_names(3), c, c,
                                    c / 8);
    iou_head_ = nn::MlpHead(context, scope / "iou_prediction_head", feed_forward_names(config.iou_head_depth), c,
                            config.iou_head_hidden, masks);
    if (config.object_score)
        object_score_head_ = nn::MlpHead(context, scope / "pred_obj_score_head", feed_forward_names(3), c, c, 1);
}

std::vector<Tensor> SamMaskDecoder::project_high_resolution(Ops& ops, const std::vector<Tensor>& maps) const {
    if (!config_.high_resolution) return {};
    return {fine0_.forward(ops, maps[0]), fine1_.forward(ops, maps[1])};
}

TwoWayTransformer::Image SamMaskDecoder::prepare(Ops& ops, const Tensor& image, const Tensor& dense,
                                                 const Tensor& positions) const {
    const Tensor flat = image.reshape({image.dim(0), image.dim(1) * image.dim(2), image.dim(3)});
    return transformer_.prepare(ops, ops.add(flat, dense), positions);
}

SamMaskDecoder::Output SamMaskDecoder::forward(Ops& ops, const TwoWayTransformer::Image& image, int64_t height,
                                               int64_t width, const Tensor& positions, const Tensor& sparse,
                                               const Tensor& sparse_mask, const std::vector<Tensor>& fine) const {
    std::vector<Tensor> inputs = {image.features, image.placed, image.key, image.value, image.query, sparse};
    inputs.insert(inputs.end(), fine.begin(), fine.end());
    if (sparse_mask) inputs.push_back(sparse_mask);
    const auto finer = static_cast<std::ptrdiff_t>(fine.size());
    const std::vector<Tensor> out = ops.stage("mask_decoder", inputs, [&](const std::vector<Tensor>& in) {
        const std::vector<Tensor> maps(in.begin() + 6, in.begin() + 6 + finer);
        const Output decoded = decode(ops, {in[0], in[1], in[2], in[3], in[4]}, height, width, positions, in[5],
                                      sparse_mask ? in.back() : Tensor(), maps);
        std::vector<Tensor> results = {decoded.masks, decoded.iou, decoded.mask_tokens};
        if (decoded.object_score) results.push_back(decoded.object_score);
        return results;
    });
    return {out[0], out[1], out.size() > 3 ? out[3] : Tensor(), out[2]};
}

SamMaskDecoder::Output SamMaskDecoder::decode(Ops& ops, const TwoWayTransformer::Image& image, int64_t height,
                                              int64_t width, const Tensor& positions, const Tensor& sparse,
                                              const Tensor& sparse_mask, const std::vector<Tensor>& fine) const {
    const int64_t batch = sparse.dim(0);
    const int64_t c = config_.transformer.hidden_size;
    const int64_t own = output_tokens_.dim(1);
    const Tensor tokens = ops.concat({output_tokens_.expand(0, batch), sparse}, 1);
    Tensor mask;
    if (sparse_mask) mask = ops.concat({ops.full({batch, own}, 1.0F, DType::u8), sparse_mask}, 1);
    const TwoWayTransformer::Output decoded = transformer_.forward(ops, tokens, mask, image, positions);

    const int64_t first = config_.object_score ? 1 : 0;
    const int64_t masks = config_.multimask_outputs + 1;
    Output output;
    output.mask_tokens = decoded.tokens.slice(1, first + 1, masks);
    // Many small products of few rows, beside the large ones of the map.
    const Tensor weights = ops.beside([&] {
        const Tensor iou = iou_head_.forward(ops, decoded.tokens.slice(1, first, 1)).reshape({batch, masks});
        output.iou = config_.iou_sigmoid ? ops.unary(iou, Unary::sigmoid) : iou;
        if (config_.object_score)
            output.object_score = object_score_head_.forward(ops, decoded.tokens.slice(1, 0, 1)).reshape({batch, 1});
        std::vector<Tensor> each;
        for (int64_t i = 0; i < masks; ++i)
            each.push_back(hypernetworks_[static_cast<size_t>(i)].forward(ops, output.mask_tokens.slice(1, i, 1)));
        return ops.concat(each, 1);
    });

    const Tensor coarse = decoded.image.reshape({batch, height, width, c});
    const auto finer = [&](size_t i) { return fine.empty() ? Tensor() : fine[i].expand(0, batch); };
    Tensor x = upscale_norm_.forward(ops, upscale1_.forward(ops, coarse, Activation::none, finer(1)), Activation::gelu);
    x = config_.high_resolution ? ops.unary(upscale2_.forward(ops, x, Activation::none, finer(0)), Unary::gelu)
                                : upscale2_.forward(ops, x, Activation::gelu);

    const Tensor pixels = x.reshape({batch, x.dim(1) * x.dim(2), c / 8});
    ops.join();
    output.masks = ops.matmul(weights, pixels, /*transpose_b=*/true).reshape({batch, masks, x.dim(1), x.dim(2)});
    return output;
}

}  // namespace sam3
