#include "nn/layers.h"

#include <algorithm>
#include <cstring>

namespace sam3::nn {

Tensor to_device(const LoadContext& context, const Tensor& host) {
    const size_t bytes = static_cast<size_t>(host.numel()) * size_of(host.dtype());
    Tensor out(context.device.allocate(bytes), host.shape(), host.dtype());
    context.device.copy_from_host(out.raw(), host.raw(), bytes);
    return out;
}

Linear::Linear(const LoadContext& context, const Scope& scope, int64_t in, int64_t out, bool bias)
    : packed_(context.device.pack_linear(
          {{scope.weights("weight", {out, in})}, {bias ? scope.tensor("bias", {out}) : Tensor()}},
          context.precision_of(scope))) {}

Linear::Linear(const LoadContext& context, const Tensor& weight, const Tensor& bias)
    : packed_(context.device.pack_linear({{weight}, {bias}}, Precision::f32)) {}

Linear::Linear(const LoadContext& context, const std::vector<Scope>& scopes, int64_t in, int64_t out_each) {
    LinearSource source;
    for (const Scope& scope : scopes) {
        source.weights.push_back(scope.weights("weight", {out_each, in}));
        source.biases.push_back(scope.tensor("bias", {out_each}));
    }
    packed_ = context.device.pack_linear(source, context.precision_of(scopes.front()));
}

LayerNorm::LayerNorm(const LoadContext& context, const Scope& scope, int64_t channels, float eps, Result result)
    : gamma_(to_device(context, scope.tensor("weight", {channels}))),
      beta_(to_device(context, scope.tensor("bias", {channels}))),
      eps_(eps),
      type_(result == Result::stream         ? DType::f32
            : result == Result::image_stream ? context.device.sum_type(context.precision)
                                             : context.device.storage_type(context.precision_of(scope))) {}

GroupNorm::GroupNorm(const LoadContext& context, const Scope& scope, int groups, int64_t channels, float eps)
    : gamma_(to_device(context, scope.tensor("weight", {channels}))),
      beta_(to_device(context, scope.tensor("bias", {channels}))),
      groups_(groups),
      eps_(eps) {}

Conv2d::Conv2d(const LoadContext& context, const Scope& scope, int64_t in, int64_t out, const Options& options) {
    const Shape shape{out, in / options.groups, options.kernel, options.kernel};
    // Convolutions in groups are small: they are not stored as codes.
    LayerWeights weight = options.groups == 1 ? scope.weights("weight", shape) : scope.tensor("weight", shape);
    const Tensor bias = options.bias ? scope.tensor("bias", {out}) : Tensor();
    const Precision precision = context.precision_of(scope);
    if (options.kernel == 1 && options.stride == 1 && options.padding == 0 && options.groups == 1) {
        weight.values = weight.values.reshape({out, in});
        pointwise_ = context.device.pack_linear({{weight}, {bias}}, precision);
    } else {
        packed_ =
            context.device.pack_conv2d({weight, bias, options.stride, options.padding, options.groups}, precision);
    }
}

Tensor Conv2d::forward(Ops& ops, const Tensor& x, Activation activation, const Tensor& residual) const {
    return pointwise_ ? ops.linear(x, *pointwise_, activation, residual)
                      : ops.conv2d(x, *packed_, activation, residual);
}

namespace {

// PyTorch stores a transposed convolution as [in, out, dy, dx]; as a linear layer its rows are [dy, dx, out]. With one
// input channel the same turns their scales.
template <typename Element>
Tensor as_linear_rows(const Tensor& stored, int64_t in, int64_t out) {
    Tensor rows = Tensor::host({4 * out, in}, stored.dtype());
    const auto* from = stored.data<Element>();
    auto* to = rows.data<Element>();
    for (int64_t i = 0; i < in; ++i)
        for (int64_t o = 0; o < out; ++o)
            for (int64_t tap = 0; tap < 4; ++tap) to[(tap * out + o) * in + i] = *from++;
    return rows;
}

LayerWeights as_linear_rows(const LayerWeights& stored, int64_t in, int64_t out) {
    if (!stored.coded()) return as_linear_rows<float>(stored.values, in, out);
    return {as_linear_rows<int8_t>(stored.values, in, out),
            as_linear_rows<float>(stored.scales, 1, out).reshape({4 * out})};
}

}  // namespace

ConvTranspose2x2::ConvTranspose2x2(const LoadContext& context, const Scope& scope, int64_t in, int64_t out) {
    const LayerWeights stored = scope.weights("weight", {in, out, 2, 2}, OutputChannels::rest);
    const Tensor stored_bias = scope.tensor("bias", {out});
    Tensor bias = Tensor::host({4 * out});
    for (int64_t tap = 0; tap < 4; ++tap)
        std::memcpy(bias.data<float>() + tap * out, stored_bias.raw(), static_cast<size_t>(out) * sizeof(float));
    packed_ = context.device.pack_linear({{as_linear_rows(stored, in, out)}, {bias}}, context.precision_of(scope));
}

ConvTranspose2x2::ConvTranspose2x2(const LoadContext& context, const Scope& scope, int64_t in, int64_t out,
                                   const Scope& pointwise, int64_t pointwise_out) {
    const auto host = make_cpu_device();
    Ops ops(*host, 1);
    const Tensor rows = as_linear_rows<float>(scope.tensor("weight", {in, out, 2, 2}), in, out).reshape({4, out, in});
    const Tensor projection = pointwise.tensor("weight", {pointwise_out, out, 1, 1}).reshape({1, pointwise_out, out});
    const Tensor bias = ops.add(pointwise.tensor("bias", {pointwise_out}).reshape({1, pointwise_out, 1}),
                                ops.matmul(projection, scope.tensor("bias", {out}).reshape({1, out, 1})));
    Tensor biases = Tensor::host({4 * pointwise_out});
    for (int64_t tap = 0; tap < 4; ++tap)
        std::memcpy(biases.data<float>() + tap * pointwise_out, bias.raw(),
                    static_cast<size_t>(pointwise_out) * sizeof(float));
    const Tensor weight = ops.matmul(projection.expand(0, 4), rows).reshape({4 * pointwise_out, in});
    packed_ = context.device.pack_linear({{weight}, {biases}}, context.precision_of(pointwise));
}

Mlp::Mlp(const LoadContext& context, const Scope& scope, int64_t channels, int64_t hidden, Activation activation)
    : fc1_(context, scope / "fc1", channels, hidden),
      fc2_(context, scope / "fc2", hidden, channels),
      activation_(activation) {}

MlpHead::MlpHead(const LoadContext& context, const Scope& scope, const std::vector<std::string>& names, int64_t in,
                 int64_t hidden, int64_t out) {
    for (size_t i = 0; i < names.size(); ++i)
        layers_.emplace_back(context, scope / names[i], i == 0 ? in : hidden, i + 1 == names.size() ? out : hidden);
}

Tensor MlpHead::before_last(Ops& ops, const Tensor& x) const {
    Tensor h = x;
    for (size_t i = 0; i + 1 < layers_.size(); ++i) h = layers_[i].forward(ops, h, Activation::relu);
    return h;
}

Tensor MlpHead::forward(Ops& ops, const Tensor& x, const Tensor& residual) const {
    return layers_.back().forward(ops, before_last(ops, x), Activation::none, residual);
}

void MlpHead::forward_to(Ops& ops, const Tensor& out, const Tensor& x) const {
    layers_.back().forward_to(ops, out, before_last(ops, x));
}

namespace {

Tensor expand_batch(const Tensor& x, int64_t batch) { return x.dim(0) == batch ? x : x.expand(0, batch); }

}  // namespace

Attention::Attention(const LoadContext& context, const Scope& scope, int64_t channels, const Options& options)
    : heads_(options.heads) {
    const int64_t inner = options.inner == 0 ? channels : options.inner;
    q_ = Linear(context, scope / "q_proj", channels, inner);
    if (options.own_keys) {
        k_ = Linear(context, scope / "k_proj", channels, inner);
        v_ = Linear(context, scope / "v_proj", channels, inner);
    }
    o_ = Linear(context, scope / options.out_name, inner, channels);
}

Tensor Attention::attend(Ops& ops, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& residual,
                         AttentionOptions options) const {
    options.heads = heads_;
    const int64_t batch = std::max(query.dim(0), key.dim(0));
    const Tensor attended =
        ops.attention(expand_batch(query, batch), expand_batch(key, batch), expand_batch(value, batch), options);
    return o_.forward(ops, attended, Activation::none, residual ? expand_batch(residual, batch) : residual);
}

SelfAttention::SelfAttention(const LoadContext& context, const Scope& scope, int64_t channels, int heads)
    : query_key_(context, {scope / "q_proj", scope / "k_proj"}, channels, channels),
      value_(context, scope / "v_proj", channels, channels),
      out_(context, scope / "o_proj", channels, channels),
      heads_(heads) {}

Tensor SelfAttention::forward(Ops& ops, const Tensor& placed, const Tensor& x, const Tensor& residual,
                              AttentionOptions options) const {
    options.heads = heads_;
    const Tensor both = query_key_.forward(ops, placed);
    const int64_t channels = both.dim(-1) / 2;
    const Tensor attended =
        ops.attention(both.slice(-1, 0, channels), both.slice(-1, channels, channels), value_.forward(ops, x), options);
    return out_.forward(ops, attended, Activation::none, residual);
}

namespace {

std::vector<Scope> inside(const std::vector<Scope>& scopes, const std::string& name) {
    std::vector<Scope> named;
    for (const Scope& scope : scopes) named.push_back(scope / name);
    return named;
}

}  // namespace

StackedKeys::StackedKeys(const LoadContext& context, const std::vector<Scope>& layers, const std::string& name,
                         int64_t channels)
    : all_(context, inside(layers, name), channels, channels), channels_(channels) {}

std::vector<Tensor> StackedKeys::forward(Ops& ops, const Tensor& x) const {
    const Tensor all = all_.forward(ops, x);
    std::vector<Tensor> each;
    for (int64_t start = 0; start < all.dim(-1); start += channels_) each.push_back(all.slice(-1, start, channels_));
    return each;
}

}  // namespace sam3::nn
