#include "models/interactive_head.h"

#include "util/error.h"

#include <algorithm>
#include <memory>

namespace sam3 {

// [1, 1, C] when nobody brings a mask, else [B, H*W, C].
Tensor InteractiveHead::dense_prompts(Ops& ops, const std::vector<InteractivePrompt>& prompts, int64_t height,
                                      int64_t width) const {
    if (std::none_of(prompts.begin(), prompts.end(), [](const auto& p) { return p.mask_logits.defined(); }))
        return prompts_.no_mask();
    std::vector<Tensor> rows;
    for (const InteractivePrompt& prompt : prompts) {
        if (!prompt.mask_logits) {
            rows.push_back(ops.contiguous(prompts_.no_mask().expand(1, height * width)));
            continue;
        }
        if (prompt.mask_logits.shape() != Shape({4 * height, 4 * width}))
            fail("a mask prompt must hold ", 4 * height, " x ", 4 * width, " logits, found ",
                 to_string(prompt.mask_logits.shape()));
        rows.push_back(
            prompts_.encode_masks(ops, ops.upload(prompt.mask_logits).reshape({1, 4 * height, 4 * width, 1})));
    }
    return ops.concat(rows, 0);
}

std::shared_ptr<const TwoWayTransformer::Image> InteractiveHead::prepare(Ops& ops,
                                                                         const InteractiveFeatures& features) const {
    const auto positions = prompts_.grid(ops, features.image.dim(1), features.image.dim(2));
    return std::make_shared<const TwoWayTransformer::Image>(
        decoder_.prepare(ops, features.image, prompts_.no_mask(), *positions));
}

SamMaskDecoder::Output InteractiveHead::decode(Ops& ops, const InteractiveFeatures& features,
                                               const std::vector<InteractivePrompt>& prompts,
                                               int64_t image_size) const {
    const int64_t height = features.image.dim(1);
    const int64_t width = features.image.dim(2);
    const auto batch = static_cast<int64_t>(prompts.size());
    if (prompts.empty() || (features.image.dim(0) != 1 && features.image.dim(0) != batch))
        fail("the interactive head got ", batch, " prompts for ", features.image.dim(0),
             " images: give one prompt an image, or one image for all");
    std::vector<VisualPrompt> where;
    for (const InteractivePrompt& prompt : prompts) where.push_back(prompt.where);
    const PromptEncoder::Tokens sparse = prompts_.encode(ops, where, image_size);
    ops.trace("prompt.sparse", sparse.tokens);
    const Tensor dense = dense_prompts(ops, prompts, height, width);
    ops.trace("prompt.dense", dense);
    const auto positions = prompts_.grid(ops, height, width);
    const bool without_masks = dense.dim(1) == 1;
    const TwoWayTransformer::Image image = features.prepared && without_masks
                                               ? *features.prepared
                                               : decoder_.prepare(ops, features.image, dense, *positions);
    return decoder_.forward(ops, image, height, width, *positions, sparse.tokens, sparse.mask, features.fine);
}

}  // namespace sam3
