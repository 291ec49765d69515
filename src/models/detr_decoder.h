#pragma once

#include "models/fusion_encoder.h"
#include "models/sam3_config.h"
#include "nn/layers.h"
#include "util/size_cache.h"

namespace sam3 {

// Object queries and a presence token that attend to each other, to the prompt and to the image; boxes are refined
// after every layer, and image attention is biased by each pixel's log-scaled distance to the edges of the query's box.
class DetrDecoder {
public:
    struct Output {
        Tensor x;        // [B, 1 + Q, C]: presence token and queries
        Tensor queries;  // [B, Q, C], normalised
        Tensor boxes;    // [B, Q, 4]: cx, cy, w, h in 0..1
    };

    DetrDecoder() = default;
    DetrDecoder(const nn::LoadContext& context, const Scope& scope, const StackConfig& config, int64_t queries);

    // What a layer asks of the boxes before it looks at the image, and before it moves them.
    struct SeenBoxes {
        AttentionOptions bias;
        Tensor logits;  // [B, Q, 4]
    };
    // What the first layer knows before it sees a picture or a prompt; made once for a size of the map.
    struct Beginning {
        Tensor x, placed;      // behind the queries' look at each other; [1, 1 + Q, C]
        Tensor places, boxes;  // [1, 1 + Q, C], [1, Q, 4]
        SeenBoxes seen;
    };
    std::shared_ptr<const Beginning> beginning_for(Ops& ops, int64_t height, int64_t width) const;

    // What every layer asks the prompt.
    struct TextMemory {
        std::vector<Tensor> keys, values;
        Tensor mask;
    };
    TextMemory read_text(Ops& ops, const PromptTokens& prompt) const;

    // memory [B, H*W, C], positions [H*W, C]
    Output forward(Ops& ops, const Beginning& beginning, const Tensor& memory, const Tensor& positions,
                   const TextMemory& text, int64_t height, int64_t width) const;
    Tensor presence(Ops& ops, const Output& decoded) const;  // [B, 1] logit

private:
    struct Layer {
        nn::SelfAttention self_attention;
        nn::Attention text_attention, vision_attention;
        nn::LayerNorm self_norm, text_norm, vision_norm, mlp_norm;
        nn::Mlp mlp;
    };
    struct KeysValues {
        Tensor keys, values;
    };
    using Placed = std::pair<Tensor, Tensor>;  // x [B, 1 + Q, C], and its sum with the queries' places
    static Placed look_at_each_other(Ops& ops, const Layer& layer, const Tensor& x, const Tensor& places);
    struct Looking {
        Tensor x, query;  // [B, 1 + Q, C], and what the image is asked
    };
    static Looking look_at_text(Ops& ops, const Layer& layer, const Placed& queries, const Tensor& places,
                                const KeysValues& text, const Tensor& mask);
    static Tensor look_at_image(Ops& ops, const Layer& layer, const Looking& queries, const KeysValues& image,
                                const AttentionOptions& bias);
    SeenBoxes see_boxes(Ops& ops, const Tensor& boxes, int64_t height, int64_t width) const;
    void place_queries(Ops& ops, const Tensor& boxes, const Tensor& positions) const;

    StackConfig config_;
    int64_t queries_ = 0;
    Tensor initial_tokens_;  // [1, 1 + Q, C]: presence token, query embeddings
    Tensor initial_boxes_;   // [1, Q, 4], logits
    std::vector<Layer> layers_;
    nn::StackedKeys text_keys_, text_values_, vision_keys_, vision_values_;  // of all layers
    nn::LayerNorm output_norm_, presence_norm_;
    nn::MlpHead box_head_, presence_head_, position_head_;
    SizeCache<Beginning> beginnings_;
    BoxBiasWeights bias_x_, bias_y_;  // a pixel's bias: a function of its column plus a function of its row
};

}  // namespace sam3
