#pragma once

#include "runtime/kernels.h"

#include <cstdint>

namespace sam3 {

// A tracker's memory, as its file states it. Defaults are those of Meta's released SAM 3 checkpoint.
struct MemoryConfig {
    int frames = 7;               // temporal encodings: conditioning frames share the last, a frame t steps away has t
    int64_t channels = 64;        // of a memory token
    int pointers = 16;            // reach of object pointers, in frames
    int conditioning_frames = 4;  // conditioning frames that attention sees; -1: all
    bool pointer_positions = true;    // pointers carry their distance in time
    bool occlusion_embedding = true;  // memories of frames without the object are marked

    // Attention from the frame to the memories.
    int layers = 4;
    int heads = 1;
    int downsample_rate = 1;
    int64_t mlp_size = 2048;
    float rope_theta = 10000.0F;
    Activation activation = Activation::relu;

    // From a mask and the frame to a memory.
    float mask_scale = 20.0F, mask_bias = -10.0F;  // applied to the mask's probabilities
    int downsampler_stride = 2, downsampler_total_stride = 16, downsampler_kernel = 3, downsampler_padding = 1;
    Activation downsampler_activation = Activation::gelu;
    int fuser_layers = 2;
    int64_t fuser_mlp_size = 1024;
    int fuser_kernel = 7, fuser_padding = 3;
    Activation fuser_activation = Activation::gelu;

    // When the decoder's three candidates compete instead of its single mask: by the number of points.
    bool multimask = true, multimask_when_tracking = true;
    int multimask_min_points = 0, multimask_max_points = 1;

    // Whether pointers of a network this wide can be cut into memory tokens.
    bool fits(int64_t width) const { return width % channels == 0; }
};

}  // namespace sam3
