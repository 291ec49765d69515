#pragma once

#include "models/image_model.h"
#include "models/memory_attention.h"
#include "models/memory_config.h"
#include "models/memory_encoder.h"

#include <span>
#include <vector>

namespace sam3 {

// What one object remembers when a frame is looked at.
struct ObjectMemory {
    struct Spatial {
        Tensor tokens;  // [H*W, M] bf16, a row of encode_memory's result
        int age = 0;    // frames away; 0: a conditioning frame
    };
    struct Pointer {
        Tensor vector;       // [C]
        float distance = 0;  // in time, divided by the reach of pointers
    };
    std::vector<Spatial> spatial;
    std::vector<Pointer> pointers;
};

// The network around the interactive head that follows objects through a video: memories of earlier frames condition
// the frame's features, the head outlines the object, and the outline becomes a memory. Holds no state of a video.
// The same for SAM 2 and SAM 3.
class MemoryTracker {
public:
    // One row per object.
    struct Answer {
        Tensor masks;     // [B, 4H, 4W] logits; all -1024 where the object is not seen
        Tensor pointers;  // [B, C]
        Tensor scores;    // [B, 2]: a logit, the object is seen where it is above 0; the mask's predicted quality
        Tensor adopted;   // [B, S, S] logits of masks that were adopted
    };

    // `head` must outlive the tracker.
    MemoryTracker(const nn::LoadContext& context, const Scope& scope, int64_t channels, const MemoryConfig& config,
                  const InteractiveHead& head, const StabilityRule& stability);

    const MemoryConfig& config() const { return config_; }

    // The frame's own map [1, H, W, C] as a frame without a past has it, or conditioned on memories: [B, H, W, C].
    Tensor without_memory(Ops& ops, const Tensor& map) const;
    Tensor with_memory(Ops& ops, const Tensor& map, const std::vector<ObjectMemory>& objects) const;

    // Whether the candidates compete for a prompt of so many points (a box counts as two).
    bool competes(bool first_frame, int points) const;
    // image [1 or B, H, W, C] from one of the two above; all objects in one call of the decoder.
    // Waits for the device only where an object's candidates do not compete and its single mask may be unstable.
    Answer decode(Ops& ops, const Tensor& image, const std::vector<Tensor>& fine,
                  const std::vector<InteractivePrompt>& prompts, const std::vector<bool>& compete,
                  int64_t image_size) const;
    // Takes masks as they are: [B, S, S] on the host, values 0 to 1, S the network's input size. The decoder only makes
    // their pointers, from the frame's own map.
    Answer adopt(Ops& ops, const Tensor& map, const std::vector<Tensor>& fine, const Tensor& masks) const;

    // map [1, H, W, C] without memory; masks [B, s, s] logits of any size; seen: one per object -> [B, H*W, M] bf16.
    // binary: the masks are a person's word, their probabilities are rounded.
    Tensor encode_memory(Ops& ops, const Tensor& map, const Tensor& masks, bool binary,
                         const std::vector<bool>& seen) const;

private:
    std::shared_ptr<const Tensor> positions_for(Ops& ops, int64_t height, int64_t width) const;
    int64_t tokens_a_pointer() const { return channels_ / config_.channels; }
    Tensor pointer_tokens(Ops& ops, const std::vector<ObjectMemory>& objects) const;
    Tensor pointer_positions(Ops& ops, std::span<const ObjectMemory> objects) const;
    MemoryTokens gather(Ops& ops, const std::vector<ObjectMemory>& objects, int64_t height, int64_t width) const;
    // What became of the decoder's masks: one an object, the token its pointer is made of, the mask's quality.
    struct Choice {
        Tensor masks;   // [B, 1, 4H * 4W]
        Tensor tokens;  // [B, 1, C]
        Tensor iou;     // [B, 1]
    };
    static Choice best_candidates(Ops& ops, const SamMaskDecoder::Output& output);
    Choice single_or_best(Ops& ops, const SamMaskDecoder::Output& output, const std::vector<bool>& compete) const;
    Answer finish(Ops& ops, const SamMaskDecoder::Output& output, const std::vector<bool>& compete) const;
    Tensor replace_rows(Ops& ops, const Tensor& rows, const std::vector<bool>& keep, const Tensor& other) const;

    MemoryConfig config_;
    int64_t channels_ = 0;
    const InteractiveHead& head_;
    StabilityRule stability_;
    MemoryAttention attention_;
    MemoryEncoder encoder_;
    Tensor no_memory_;   // [C]
    Tensor no_pointer_;  // [1, C]
    Tensor occlusion_;   // [1, M]; undefined without the embedding
    Tensor temporal_;    // host [frames, 1, 1, M]
    nn::Conv2d mask_downsample_;
    nn::MlpHead pointer_head_;
    nn::Linear pointer_position_;
    SizeCache<Tensor> positions_;
};

}  // namespace sam3
