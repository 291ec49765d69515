#include "models/neck.h"

namespace sam3 {

Neck::Neck(const nn::LoadContext& context, const Scope& scope, int64_t in, const NeckConfig& config) {
    for (int i = 0; i < kLevels; ++i) {
        const Scope layer = scope / "fpn_layers" / i;
        const float factor = config.scale_factors[static_cast<size_t>(i)];
        Level level;
        int64_t channels = in;
        // Codes of both layers would have to be decoded and made anew: their product has none.
        const bool joins = context.precision_of(layer / "proj1") != Precision::int8;
        // Modules inside scale_layers are numbered with the activation between them: 0, (GELU 1), 2.
        for (float scale = factor; scale > 1.0F; scale /= 2.0F) {
            const Scope upsample = layer / "scale_layers" / static_cast<int>(2 * level.upsample.size());
            if (joins && scale <= 2.0F)
                level.upsample.emplace_back(context, upsample, channels, channels / 2, layer / "proj1",
                                            config.hidden_size);
            else
                level.upsample.emplace_back(context, upsample, channels, channels / 2);
            channels /= 2;
        }
        level.pool = factor < 1.0F;
        if (!joins || level.upsample.empty())
            level.proj1 = nn::Conv2d(context, layer / "proj1", channels, config.hidden_size, {.kernel = 1});
        level.proj2 =
            nn::Conv2d(context, layer / "proj2", config.hidden_size, config.hidden_size, {.kernel = 3, .padding = 1});
        levels_.push_back(std::move(level));
    }
}

Tensor Neck::level(Ops& ops, const Tensor& x, int index) const {
    const Level& level = levels_[static_cast<size_t>(index)];
    Tensor h = level.pool ? ops.max_pool(x, 2, 2) : x;
    for (size_t i = 0; i < level.upsample.size(); ++i) {
        const bool last = i + 1 == level.upsample.size();
        h = level.upsample[i].forward(ops, h, last ? Activation::none : Activation::gelu);
    }
    return level.proj2.forward(ops, level.proj1 ? level.proj1->forward(ops, h) : h);
}

std::vector<Tensor> Neck::forward(Ops& ops, const Tensor& x) const {
    std::vector<Tensor> maps;
    for (int i = 0; i < kLevels; ++i) maps.push_back(level(ops, x, i));
    return maps;
}

}  // namespace sam3
