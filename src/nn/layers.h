#pragma once

#include "nn/module.h"
#include "runtime/ops.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sam3::nn {

inline constexpr float kNormEps = 1e-5F;  // PyTorch's own, where a configuration says nothing else

// y = x W^T + b; names `weight` and `bias`.
class Linear {
public:
    Linear() = default;
    Linear(const LoadContext& context, const Scope& scope, int64_t in, int64_t out, bool bias = true);
    // Several layers on one input as a single product: outputs side by side in the order of the scopes.
    Linear(const LoadContext& context, const std::vector<Scope>& scopes, int64_t in, int64_t out_each);
    Linear(const LoadContext& context, const Tensor& weight, const Tensor& bias);  // in f32

    Tensor forward(Ops& ops, const Tensor& x, Activation activation = Activation::none,
                   const Tensor& residual = {}) const {
        return ops.linear(x, *packed_, activation, residual);
    }
    void forward_to(Ops& ops, const Tensor& out, const Tensor& x) const { ops.linear_to(out, x, *packed_); }
    Tensor forward_rotated(Ops& ops, const Tensor& x, const Tensor& table, int heads, int window = 0) const {
        return ops.linear_rotated(x, *packed_, table, heads, window);
    }
    int64_t out_features() const { return packed_->out_features; }

private:
    std::shared_ptr<const PackedLinear> packed_;
};

// Results are kept in the device's storage type, as input of the layer behind; those that are a residual stream
// themselves stay f32, or what the device chooses where that is an image's.
class LayerNorm {
public:
    enum class Result { input, stream, image_stream };
    LayerNorm() = default;
    LayerNorm(const LoadContext& context, const Scope& scope, int64_t channels, float eps,
              Result result = Result::input);
    Tensor forward(Ops& ops, const Tensor& x, Activation activation = Activation::none) const {
        return ops.layer_norm(x, gamma_, beta_, eps_, activation, type_);
    }
    // The norm, and its sum with positions.
    std::pair<Tensor, Tensor> forward_placed(Ops& ops, const Tensor& x, const Tensor& positions) const {
        return ops.layer_norm_and_sum(x, gamma_, beta_, eps_, positions, type_);
    }

    // The norm, and itself in the type that layers behind it take.
    std::pair<Tensor, Tensor> forward_stored(Ops& ops, const Tensor& x) const {
        return ops.layer_norm_and_sum(x, gamma_, beta_, eps_, {}, type_);
    }

private:
    Tensor gamma_, beta_;
    float eps_ = 0;
    DType type_ = DType::f32;
};

class GroupNorm {
public:
    GroupNorm() = default;
    GroupNorm(const LoadContext& context, const Scope& scope, int groups, int64_t channels, float eps);
    Tensor forward(Ops& ops, const Tensor& x, Activation activation = Activation::none) const {
        return ops.group_norm(x, groups_, gamma_, beta_, eps_, activation);
    }

private:
    Tensor gamma_, beta_;
    int groups_ = 1;
    float eps_ = 0;
};

// Channels-last convolution; a 1 x 1 kernel is a linear layer.
class Conv2d {
public:
    struct Options {
        int kernel = 1, stride = 1, padding = 0, groups = 1;
        bool bias = true;
    };
    Conv2d() = default;
    Conv2d(const LoadContext& context, const Scope& scope, int64_t in, int64_t out, const Options& options);
    Tensor forward(Ops& ops, const Tensor& x, Activation activation = Activation::none,
                   const Tensor& residual = {}) const;

private:
    std::shared_ptr<const PackedLinear> pointwise_;
    std::shared_ptr<const PackedConv2d> packed_;
};

// Transposed convolution with kernel 2 and stride 2: every input pixel becomes a 2 x 2 block.
class ConvTranspose2x2 {
public:
    ConvTranspose2x2() = default;
    ConvTranspose2x2(const LoadContext& context, const Scope& scope, int64_t in, int64_t out);
    // With the pointwise convolution behind it: both are linear, so that they are one.
    ConvTranspose2x2(const LoadContext& context, const Scope& scope, int64_t in, int64_t out, const Scope& pointwise,
                     int64_t pointwise_out);
    Tensor forward(Ops& ops, const Tensor& x, Activation activation = Activation::none,
                   const Tensor& residual = {}) const {
        return ops.conv_transpose_2x2(x, *packed_, activation, residual);
    }

private:
    std::shared_ptr<const PackedLinear> packed_;
};

// fc2(activation(fc1(x))): a transformer's feed-forward part.
class Mlp {
public:
    Mlp() = default;
    Mlp(const LoadContext& context, const Scope& scope, int64_t channels, int64_t hidden, Activation activation);
    Tensor forward(Ops& ops, const Tensor& x, const Tensor& residual = {}) const {
        return fc2_.forward(ops, fc1_.forward(ops, x, activation_), Activation::none, residual);
    }

private:
    Linear fc1_, fc2_;
    Activation activation_ = Activation::none;
};

// A chain of linear layers with ReLU between them; `names` are the layers' names inside the scope.
class MlpHead {
public:
    MlpHead() = default;
    MlpHead(const LoadContext& context, const Scope& scope, const std::vector<std::string>& names, int64_t in,
            int64_t hidden, int64_t out);
    explicit MlpHead(std::vector<Linear> layers) : layers_(std::move(layers)) {}
    Tensor forward(Ops& ops, const Tensor& x, const Tensor& residual = {}) const;
    void forward_to(Ops& ops, const Tensor& out, const Tensor& x) const;

private:
    Tensor before_last(Ops& ops, const Tensor& x) const;

    std::vector<Linear> layers_;
};

// Multi-head attention with separate projections.
class Attention {
public:
    struct Options {
        int heads = 1;
        int64_t inner = 0;  // size after the projections; 0: as before them
        std::string out_name = "o_proj";
        bool own_keys = true;  // false: keys and values are projected elsewhere (StackedKeys), only attend() is called
    };
    Attention() = default;
    Attention(const LoadContext& context, const Scope& scope, int64_t channels, const Options& options);
    Attention(const LoadContext& context, const Scope& scope, int64_t channels, int heads)
        : Attention(context, scope, channels, Options{.heads = heads}) {}
    // query, key and value [N, T, C] -> [N, Tq, C] + residual; heads are filled into the options here. A side with
    // N = 1 is projected once and shared by the whole batch.
    Tensor forward(Ops& ops, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& residual = {},
                   AttentionOptions options = {}) const {
        return attend(ops, project_query(ops, query), project_key(ops, key), project_value(ops, value), residual,
                      std::move(options));
    }
    // Its parts, for projections that serve several calls.
    Tensor project_query(Ops& ops, const Tensor& x) const { return q_.forward(ops, x); }
    Tensor project_key(Ops& ops, const Tensor& x) const { return k_.forward(ops, x); }
    Tensor project_value(Ops& ops, const Tensor& x) const { return v_.forward(ops, x); }
    Tensor attend(Ops& ops, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& residual = {},
                  AttentionOptions options = {}) const;

private:
    Linear q_, k_, v_, o_;
    int heads_ = 1;
};

// Multi-head self-attention: queries and keys, from the tokens with their positions, are one product; values come from
// the tokens without.
class SelfAttention {
public:
    SelfAttention() = default;
    SelfAttention(const LoadContext& context, const Scope& scope, int64_t channels, int heads);
    Tensor forward(Ops& ops, const Tensor& placed, const Tensor& x, const Tensor& residual = {},
                   AttentionOptions options = {}) const;

private:
    Linear query_key_, value_, out_;
    int heads_ = 1;
};

// The keys, or the values, of several attention layers that read the same tokens, as one product.
class StackedKeys {
public:
    StackedKeys() = default;
    // `name` is that of the projections inside the layers' scopes: "k_proj" or "v_proj".
    StackedKeys(const LoadContext& context, const std::vector<Scope>& layers, const std::string& name,
                int64_t channels);
    std::vector<Tensor> forward(Ops& ops, const Tensor& x) const;  // one a layer, views of one tensor

private:
    Linear all_;
    int64_t channels_ = 0;
};

}  // namespace sam3::nn
