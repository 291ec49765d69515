#include "models/sam3_detector.h"

#include "nn/position.h"
#include "util/error.h"

#include <algorithm>
#include <cstring>

namespace sam3 {

namespace {

// [..., cx, cy, w, h] -> [..., x0, y0, x1, y1]
Tensor corners(Ops& ops, const Tensor& boxes) {
    const Tensor centre = boxes.slice(-1, 0, 2);
    const Tensor half = ops.affine(boxes.slice(-1, 2, 2), 0.5F, 0.0F);
    return ops.concat({ops.sub(centre, half), ops.add(centre, half)}, -1);
}

Tensor tokens_of(const Tensor& map) { return map.reshape({map.dim(0), map.dim(1) * map.dim(2), map.dim(3)}); }

}  // namespace

DetectorFeatures DetectorFeatures::image(int64_t index) const {
    DetectorFeatures one;
    for (const Tensor& map : maps) one.maps.push_back(map.slice(0, index, 1));
    one.begun = begun.slice(0, index, 1);
    if (unprompted) one.unprompted = unprompted.slice(0, index, 1);
    return one;
}

Sam3Detector::Sam3Detector(const nn::LoadContext& context, const Scope& root, const Sam3Config& config)
    : config_(config),
      neck_(context, root / "vision_encoder" / "neck", config.vit.hidden_size, config.neck),
      text_encoder_(context, root / "text_encoder" / "text_model", root / "text_projection", config.text,
                    config.neck.hidden_size),
      geometry_encoder_(context, root / "geometry_encoder", config.geometry, config.roi_size),
      fusion_encoder_(context, root / "detr_encoder", config.fusion),
      decoder_(context, root / "detr_decoder", config.decoder, config.queries),
      scoring_(context, root / "dot_product_scoring", config.neck.hidden_size, config.decoder.mlp_size),
      mask_head_(context, root / "mask_decoder", config.neck.hidden_size, config.mask_heads,
                 config.mask_upsampling_stages) {}

std::shared_ptr<const Tensor> Sam3Detector::positions_for(Ops& ops, int64_t height, int64_t width) const {
    return positions_.get(height, width,
                          [&] { return ops.upload(nn::sine_position_table(height, width, config_.neck.hidden_size)); });
}

DetectorFeatures Sam3Detector::features(Ops& ops, const Tensor& trunk) const {
    const auto positions = positions_for(ops, trunk.dim(1), trunk.dim(2));
    const bool unprompted = config_.behaviour.cls_on_text_only;
    const std::vector<Tensor> out = ops.stage("detector_neck", {trunk}, [&](const std::vector<Tensor>& in) {
        const Tensor x = ops.stored(in[0]);
        const Tensor coarse = neck_.level(ops, x, Neck::kLevels - 1);
        std::vector<Tensor> maps = ops.beside(
            [&] {
                return std::vector<Tensor>{neck_.level(ops, x, 0), neck_.level(ops, x, 1)};
            },
            BranchShare::most);
        maps.push_back(coarse);
        maps.push_back(fusion_encoder_.begin(ops, tokens_of(coarse), *positions));
        if (unprompted) maps.push_back(geometry_encoder_.forward(ops, coarse, *positions, {}));
        ops.join();
        return maps;
    });
    DetectorFeatures features;
    features.maps.assign(out.begin(), out.begin() + Neck::kLevels);
    features.begun = out[Neck::kLevels];
    if (unprompted) features.unprompted = out.back();
    for (size_t i = 0; i < features.maps.size(); ++i) ops.trace("vision.fpn." + std::to_string(i), features.maps[i]);
    return features;
}

Tensor Sam3Detector::encode_text(Ops& ops, const Tensor& ids, const Tensor& mask) const {
    const bool masked = config_.behaviour.mask_padding_in_text;
    return ops.stage_aside("text_encoder", {text_encoder_.embed(ids), mask}, [&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{text_encoder_.forward(ops, in[0], masked ? in[1] : Tensor())};
    })[0];
}

Tensor Sam3Detector::encode_geometry(Ops& ops, const DetectorFeatures& features, const GeometryPrompt& prompt) const {
    const Tensor& map = features.maps.back();
    return geometry_encoder_.forward(ops, map, *positions_for(ops, map.dim(1), map.dim(2)), prompt);
}

PromptTokens Sam3Detector::join(Ops& ops, const std::vector<PromptPart>& parts) const {
    const auto batch = static_cast<int64_t>(parts.size());
    int64_t longest = 0;
    for (const PromptPart& part : parts)
        longest = std::max(longest, part.text.dim(0) + (part.geometry ? part.geometry.dim(1) : 0));

    PromptTokens prompt;
    if (batch > 1) prompt.tokens = ops.full({batch, longest, config_.neck.hidden_size}, 0.0F);
    Tensor mask = Tensor::host({batch, longest}, DType::u8);
    Tensor mean = Tensor::host({batch, 1, longest});
    std::memset(mask.raw(), 0, static_cast<size_t>(mask.numel()));
    for (int64_t b = 0; b < batch; ++b) {
        const PromptPart& part = parts[static_cast<size_t>(b)];
        const int64_t text = part.text.dim(0);
        const int64_t geometry = part.geometry ? part.geometry.dim(1) : 0;
        if (batch == 1) {
            prompt.tokens = part.text.unsqueeze(0);
            if (geometry > 0) prompt.tokens = ops.concat({prompt.tokens, part.geometry}, 1);
        } else {
            ops.copy_(prompt.tokens.select(0, b).slice(0, 0, text), part.text);
            if (geometry > 0)
                ops.copy_(prompt.tokens.select(0, b).slice(0, text, geometry), part.geometry.select(0, 0));
        }
        uint8_t* valid = mask.data<uint8_t>() + b * longest;
        std::fill_n(valid, part.text_valid, uint8_t{1});
        std::fill_n(valid + text, geometry, uint8_t{1});
        const auto count = static_cast<float>(std::max<int64_t>(1, part.text_valid + geometry));
        for (int64_t t = 0; t < longest; ++t)
            mean.data<float>()[b * longest + t] = static_cast<float>(valid[t]) / count;
    }
    prompt.mask = ops.upload(mask);
    prompt.mean = ops.upload(mean);
    return prompt;
}

Sam3Detector::Output Sam3Detector::detect(Ops& ops, const DetectorFeatures& features,
                                          const PromptTokens& prompt) const {
    const Tensor& map = features.maps.back();
    const int64_t height = map.dim(1);
    const int64_t width = map.dim(2);
    const auto positions = positions_for(ops, height, width);
    const auto beginning = decoder_.beginning_for(ops, height, width);
    const std::vector<Tensor> inputs = {features.maps[0], features.maps[1], map,        features.begun,
                                        prompt.tokens,    prompt.mask,      prompt.mean};
    const std::vector<Tensor> out = ops.stage("concept_decoder", inputs, [&](const std::vector<Tensor>& in) {
        const PromptTokens p{in[4], in[5], in[6]};
        // What depends on the prompt alone is small: it is hidden behind the fusion.
        const auto of_prompt =
            ops.beside([&] { return std::make_pair(decoder_.read_text(ops, p), scoring_.pool(ops, p)); });
        const Tensor memory = fusion_encoder_.forward(ops, in[3], *positions, p);
        ops.join();
        ops.trace("fusion.output", memory);
        const Tensor pixels = ops.beside([&] {
            return mask_head_.embed_pixels(ops, {in[0], in[1], in[2]}, memory, p);
        });
        const DetrDecoder::Output decoded =
            decoder_.forward(ops, *beginning, memory, *positions, of_prompt.first, height, width);
        ops.trace("decoder.queries", decoded.queries);
        const auto [logits, presence] = ops.beside([&] {
            const Tensor logit = decoder_.presence(ops, decoded);
            return std::make_pair(scoring_.forward(ops, decoded.queries, of_prompt.second),
                                  config_.behaviour.clamp_presence ? ops.clamp(logit, -10.0F, 10.0F) : logit);
        });
        const MaskVectors masks = mask_head_.vectors(ops, decoded.queries);
        ops.join();  // the scores
        ops.join();  // the pixels
        return std::vector<Tensor>{logits, presence, decoded.boxes, masks.vectors, masks.offsets, pixels};
    });
    if (ops.tracing()) ops.trace("decoder.boxes", corners(ops, out[2]));
    ops.trace("decoder.logits", out[0]);
    ops.trace("decoder.presence", out[1]);
    return {out[0], out[1], out[2], {out[3], out[4]}, out[5]};
}

MaskVectors Sam3Detector::Output::chosen(Ops& ops, int64_t row, const Tensor& ids) const {
    return {ops.gather_rows(masks.vectors.slice(0, row, 1), ids), ops.gather_rows(masks.offsets.slice(0, row, 1), ids)};
}

Tensor Sam3Detector::masks(Ops& ops, const Tensor& pixels, const MaskVectors& masks) const {
    return ops.stage("mask_head", {pixels, masks.vectors, masks.offsets}, [&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{mask_head_.masks(ops, in[0], {in[1], in[2]})};
    })[0];
}

Tensor Sam3Detector::semantic(Ops& ops, const Tensor& pixels) const { return mask_head_.semantic(ops, pixels); }

}  // namespace sam3
