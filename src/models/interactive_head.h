#pragma once

#include "models/prompt_encoder.h"
#include "models/sam_mask_decoder.h"

namespace sam3 {

// What clicks are answered from: one image's embedding, and finer maps where the family has them.
struct InteractiveFeatures {
    Tensor image;              // [1, H, W, C], as a single image's clicks see it
    Tensor map;                // [1, H, W, C], the neck's own, as a video's frames see it
    std::vector<Tensor> fine;  // the decoder's, finest first; may be empty
    // `image` for prompts without a mask, from InteractiveHead::prepare; null: made anew in each call.
    std::shared_ptr<const TwoWayTransformer::Image> prepared{};
};

// One object that a person points at.
struct InteractivePrompt {
    VisualPrompt where;  // pixels of the network's input
    Tensor mask_logits;  // host [4H, 4W] of an earlier answer; undefined: none
};

// SAM's prompt encoder and mask decoder together; the same for SAM 1, SAM 2 and SAM 3.
class InteractiveHead {
public:
    InteractiveHead() = default;
    InteractiveHead(PromptEncoder prompts, SamMaskDecoder decoder)
        : prompts_(std::move(prompts)), decoder_(std::move(decoder)) {}

    const SamMaskDecoder& decoder() const { return decoder_; }
    // What all clicks on an image share.
    std::shared_ptr<const TwoWayTransformer::Image> prepare(Ops& ops, const InteractiveFeatures& features) const;
    // All objects in one call of the decoder.
    SamMaskDecoder::Output decode(Ops& ops, const InteractiveFeatures& features,
                                  const std::vector<InteractivePrompt>& prompts, int64_t image_size) const;

private:
    Tensor dense_prompts(Ops& ops, const std::vector<InteractivePrompt>& prompts, int64_t height, int64_t width) const;

    PromptEncoder prompts_;
    SamMaskDecoder decoder_;
};

}  // namespace sam3
