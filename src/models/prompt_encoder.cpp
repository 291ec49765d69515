#include "models/prompt_encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

namespace sam3 {

PromptEncoder::PromptEncoder(const nn::LoadContext& context, const Scope& scope, const PromptEncoderConfig& config)
    : config_(config) {
    const int64_t c = config.hidden_size;
    gaussian_ = (scope / "shared_embedding").tensor("positional_embedding", {2, c / 2});
    point_embed_ = (scope / "point_embed").tensor("weight", {4, c});
    not_a_point_ = (scope / "not_a_point_embed").tensor("weight", {1, c});
    no_mask_ = nn::to_device(context, (scope / "no_mask_embed").tensor("weight", {1, c})).reshape({1, 1, c});
    const Scope mask = scope / "mask_embed";
    const int64_t wide = config.mask_channels;
    conv1_ = nn::Conv2d(context, mask / "conv1", 1, wide / 4, {.kernel = 2, .stride = 2});
    conv2_ = nn::Conv2d(context, mask / "conv2", wide / 4, wide, {.kernel = 2, .stride = 2});
    conv3_ = nn::Conv2d(context, mask / "conv3", wide, c, {.kernel = 1});
    norm1_ = nn::LayerNorm(context, mask / "layer_norm1", wide / 4, config.norm_eps);
    norm2_ = nn::LayerNorm(context, mask / "layer_norm2", wide, config.norm_eps);
}

void PromptEncoder::encode_point(float x, float y, float* out) const {
    constexpr float kTwoPi = 2.0F * std::numbers::pi_v<float>;
    const int64_t half = config_.hidden_size / 2;
    const float* gx = gaussian_.data<float>();
    const float* gy = gx + half;
    const float u = 2.0F * x - 1.0F;
    const float v = 2.0F * y - 1.0F;
    for (int64_t i = 0; i < half; ++i) {
        const float angle = kTwoPi * (u * gx[i] + v * gy[i]);
        out[i] = std::sin(angle);
        out[half + i] = std::cos(angle);
    }
}

PromptEncoder::Tokens PromptEncoder::encode(Ops& ops, const std::vector<VisualPrompt>& prompts,
                                            int64_t image_size) const {
    const int64_t c = config_.hidden_size;
    const auto side = static_cast<float>(image_size);
    const auto batch = static_cast<int64_t>(prompts.size());
    const auto empty_points = [&](const VisualPrompt& prompt) {
        if (prompt.box) return config_.box_padding_point ? 1 : 0;
        return prompt.points.empty() ? config_.empty_points : 1;
    };
    const auto count = [&](const VisualPrompt& prompt) {
        return static_cast<int64_t>(prompt.points.size()) + (prompt.box ? 2 : 0) + empty_points(prompt);
    };
    int64_t longest = 0;
    for (const VisualPrompt& prompt : prompts) longest = std::max(longest, count(prompt));

    Tensor tokens = Tensor::host({batch, longest, c});
    Tensor mask = Tensor::host({batch, longest}, DType::u8);
    std::memset(tokens.raw(), 0, static_cast<size_t>(tokens.numel()) * sizeof(float));
    std::memset(mask.raw(), 0, static_cast<size_t>(mask.numel()));
    bool ragged = false;
    for (int64_t b = 0; b < batch; ++b) {
        const VisualPrompt& prompt = prompts[static_cast<size_t>(b)];
        float* out = tokens.data<float>() + b * longest * c;
        // Coordinates name pixels; the encoding is of their centres.
        const auto add = [&](float x, float y, int64_t label) {
            encode_point((x + 0.5F) / side, (y + 0.5F) / side, out);
            const float* embedding = point_embed_.data<float>() + label * c;
            for (int64_t i = 0; i < c; ++i) out[i] += embedding[i];
            out += c;
        };
        for (const VisualPrompt::Point& point : prompt.points) add(point.x, point.y, point.positive ? 1 : 0);
        if (prompt.box) {
            add(prompt.box->x0, prompt.box->y0, 2);
            add(prompt.box->x1, prompt.box->y1, 3);
        }
        for (int i = 0; i < empty_points(prompt); ++i, out += c)
            std::memcpy(out, not_a_point_.raw(), static_cast<size_t>(c) * sizeof(float));
        std::fill_n(mask.data<uint8_t>() + b * longest, count(prompt), uint8_t{1});
        ragged = ragged || count(prompt) != longest;
    }
    return {ops.upload(tokens), ragged ? ops.upload(mask) : Tensor()};
}

Tensor PromptEncoder::encode_masks(Ops& ops, const Tensor& masks) const {
    Tensor x = norm1_.forward(ops, conv1_.forward(ops, masks), config_.activation);
    x = norm2_.forward(ops, conv2_.forward(ops, x), config_.activation);
    x = conv3_.forward(ops, x);
    return x.reshape({x.dim(0), x.dim(1) * x.dim(2), x.dim(3)});
}

std::shared_ptr<const Tensor> PromptEncoder::grid(Ops& ops, int64_t height, int64_t width) const {
    return grids_.get(height, width, [&] {
        Tensor table = Tensor::host({height * width, config_.hidden_size});
        for (int64_t y = 0; y < height; ++y)
            for (int64_t x = 0; x < width; ++x)
                encode_point((static_cast<float>(x) + 0.5F) / static_cast<float>(width),
                             (static_cast<float>(y) + 0.5F) / static_cast<float>(height),
                             table.data<float>() + (y * width + x) * config_.hidden_size);
        return ops.upload(table);
    });
}

}  // namespace sam3
