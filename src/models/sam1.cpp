#include "models/sam1.h"

#include "util/error.h"

namespace sam3 {

Sam1::Sam1(const nn::LoadContext& context, const Scope& root, const Sam1Config& config)
    : config_(config),
      preprocessing_{config.vision.image_size, config.vision.patch_size, true, config.image_mean, config.image_std},
      image_encoder_(context, root / "vision_encoder", config.vision),
      prompt_encoder_(context, root / "prompt_encoder", config.prompt),
      mask_decoder_(context, root / "mask_decoder", config.decoder),
      head_(prompt_encoder_, mask_decoder_) {}

std::vector<InteractiveFeatures> Sam1::interactive_features(Ops&, const Tensor& trunk) const {
    std::vector<InteractiveFeatures> images;
    for (int64_t n = 0; n < trunk.dim(0); ++n) images.push_back({trunk.slice(0, n, 1), {}});
    return images;
}

Tensor Sam1::encode_image(Ops& ops, const Tensor& pixels) const {
    return ops.stage("image_encoder", {pixels}, [&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{image_encoder_.forward(ops, in[0])};
    })[0];
}

SamMaskDecoder::Output Sam1::decode(Ops& ops, const Tensor& embedding, const std::vector<VisualPrompt>& prompts,
                                    const Tensor& masks) const {
    if (prompts.empty()) fail("SAM 1 needs at least one prompt: points, a box or a mask");
    const auto batch = static_cast<int64_t>(prompts.size());
    if (embedding.dim(0) != 1 && embedding.dim(0) != batch)
        fail("SAM 1 got ", batch, " prompts for ", embedding.dim(0), " images: give one prompt an image, or one image");
    const int64_t height = embedding.dim(1);
    const int64_t width = embedding.dim(2);
    if (masks && (masks.rank() != 4 || masks.dim(1) != 4 * height || masks.dim(2) != 4 * width || masks.dim(3) != 1))
        fail("a mask prompt must have ", 4 * height, " x ", 4 * width, " logits, found ", to_string(masks.shape()));

    const PromptEncoder::Tokens sparse = prompt_encoder_.encode(ops, prompts, height * config_.vision.patch_size);
    const Tensor dense = masks ? prompt_encoder_.encode_masks(ops, masks) : prompt_encoder_.no_mask();
    const auto positions = prompt_encoder_.grid(ops, height, width);
    ops.trace("prompt.sparse", sparse.tokens);
    ops.trace("prompt.dense", dense);
    std::vector<Tensor> inputs = {embedding, dense, sparse.tokens};
    if (sparse.mask) inputs.push_back(sparse.mask);
    const std::vector<Tensor> out = ops.stage("mask_decoder", inputs, [&](const std::vector<Tensor>& in) {
        const Tensor mask = in.size() > 3 ? in[3] : Tensor();
        const SamMaskDecoder::Output decoded = mask_decoder_.forward(ops, in[0], in[1], *positions, in[2], mask, {});
        return std::vector<Tensor>{decoded.masks, decoded.iou, decoded.mask_tokens};
    });
    ops.trace("masks", out[0]);
    ops.trace("iou", out[1]);
    return {out[0], out[1], {}, out[2]};
}

}  // namespace sam3
