#include "models/memory_encoder.h"

namespace sam3 {

namespace {

constexpr float kMemoryNormEps = 1e-6F;

// rows of a weight or a bias times one factor each
Tensor scale_rows(const Tensor& rows, const Tensor& scale) {
    Tensor out = Tensor::host(rows.shape());
    const int64_t length = rows.numel() / rows.dim(0);
    for (int64_t r = 0; r < rows.dim(0); ++r)
        for (int64_t i = 0; i < length; ++i)
            out.data<float>()[r * length + i] = rows.data<float>()[r * length + i] * scale.data<float>()[r];
    return out;
}

}  // namespace

MemoryEncoder::MemoryEncoder(const nn::LoadContext& context, const Scope& scope, int64_t channels,
                             const MemoryConfig& config)
    : config_(config) {
    const Scope masks = scope / "mask_downsampler";
    int64_t in = 1;
    for (int64_t stride = 1, i = 0; stride < config.downsampler_total_stride;
         stride *= config.downsampler_stride, ++i) {
        const Scope layer = masks / "layers" / i;
        const int64_t out = in * config.downsampler_stride * config.downsampler_stride;
        downsamples_.push_back({nn::Conv2d(context, layer / "conv", in, out,
                                           {.kernel = config.downsampler_kernel,
                                            .stride = config.downsampler_stride,
                                            .padding = config.downsampler_padding}),
                                nn::LayerNorm(context, layer / "layer_norm", out, kMemoryNormEps)});
        in = out;
    }
    mask_projection_ = nn::Conv2d(context, masks / "final_conv", in, channels, {.kernel = 1});
    feature_projection_ = nn::Conv2d(context, scope / "feature_projection", channels, channels, {.kernel = 1});
    for (int i = 0; i < config.fuser_layers; ++i) {
        const Scope layer = scope / "memory_fuser" / "layers" / i;
        const Tensor scale = layer.tensor("scale", {channels});
        const Scope narrow = layer / "pointwise_conv2";
        fuser_.push_back(
            {nn::Conv2d(context, layer / "depthwise_conv", channels, channels,
                        {.kernel = config.fuser_kernel,
                         .padding = config.fuser_padding,
                         .groups = static_cast<int>(channels)}),
             nn::LayerNorm(context, layer / "layer_norm", channels, kMemoryNormEps),
             nn::Linear(context, layer / "pointwise_conv1", channels, config.fuser_mlp_size),
             nn::Linear(context, scale_rows(narrow.tensor("weight", {channels, config.fuser_mlp_size}), scale),
                        scale_rows(narrow.tensor("bias", {channels}), scale))});
    }
    out_projection_ = nn::Conv2d(context, scope / "projection", channels, config.channels, {.kernel = 1});
}

Tensor MemoryEncoder::forward(Ops& ops, const Tensor& map, const Tensor& masks) const {
    return ops.stage("memory_encoder", {map, masks},
                     [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{encode(ops, in[0], in[1])}; })[0];
}

Tensor MemoryEncoder::encode(Ops& ops, const Tensor& map, const Tensor& masks) const {
    Tensor x = masks;
    for (const Downsample& step : downsamples_)
        x = step.norm.forward(ops, step.conv.forward(ops, x), config_.downsampler_activation);
    const Tensor features = feature_projection_.forward(ops, map);
    x = mask_projection_.forward(ops, x, Activation::none, features.expand(0, x.dim(0)));
    for (const FuserBlock& block : fuser_) {
        const Tensor h = block.norm.forward(ops, block.depthwise.forward(ops, x));
        x = block.narrow.forward(ops, block.widen.forward(ops, h, config_.fuser_activation), Activation::none, x);
    }
    return out_projection_.forward(ops, x).reshape({x.dim(0), x.dim(1) * x.dim(2), config_.channels});
}

}  // namespace sam3
