#pragma once

#include "models/memory_config.h"
#include "nn/layers.h"
#include "util/size_cache.h"

#include <vector>

namespace sam3 {

// What a frame attends to, one row per object, padded to the longest: first whole maps of memory, then pointers.
struct MemoryTokens {
    Tensor values;        // [B, T, M], stored
    Tensor positions;     // [1 or B, T, M], f32: values and positions together are the keys
    Tensor mask;          // u8 [B, T]; undefined when nothing is padded
    int64_t in_maps = 0;  // leading tokens that lie on the image's grid; only they are rotated
};

// The tracker's transformer: a frame's features look at the memories of one or more objects.
class MemoryAttention {
public:
    MemoryAttention() = default;
    MemoryAttention(const nn::LoadContext& context, const Scope& scope, int64_t channels, const MemoryConfig& config);

    // map [1, H, W, C] -> [B, H, W, C]. What all objects share, up to the first look at the memories, is computed once.
    Tensor forward(Ops& ops, const Tensor& map, const MemoryTokens& memory) const;

private:
    // Queries and keys are rotated by their place on the grid, whose table is given.
    struct SelfAttention {
        nn::Linear qkv, o;
        int heads = 1;

        SelfAttention(const nn::LoadContext& context, const Scope& scope, int64_t channels, const MemoryConfig& config);
        Tensor forward(Ops& ops, const Tensor& x, const Tensor& table, const Tensor& residual) const;
    };
    struct Memories {
        Tensor keys, values;  // [B, T, M]
        Tensor mask;
        int64_t rotated;  // the leading keys, whole maps
    };
    struct CrossAttention {
        nn::Linear q, k, v, o;
        int heads = 1;

        CrossAttention(const nn::LoadContext& context, const Scope& scope, int64_t channels,
                       const MemoryConfig& config);
        Tensor forward(Ops& ops, const Tensor& x, const Memories& memories, const Tensor& table,
                       const Tensor& residual) const;
    };
    struct Layer {
        nn::LayerNorm norm1, norm2, norm3;
        SelfAttention self_attention;
        CrossAttention cross_attention;
        nn::Linear mlp1, mlp2;
    };
    struct Tables {
        Tensor positions;  // [H*W, C], already weighted
        Tensor rope;       // [H*W, head size / 2, 2]
    };

    std::shared_ptr<const Tables> tables_for(Ops& ops, int64_t height, int64_t width) const;

    MemoryConfig config_;
    int64_t channels_ = 0;
    std::vector<Layer> layers_;
    nn::LayerNorm norm_;
    SizeCache<Tables> tables_;
};

}  // namespace sam3
