#pragma once

#include "mask/mask.h"

#include <span>
#include <vector>

// Connected regions of masks, and the clean-ups built on them.
namespace sam3 {

enum class Connectivity { four, eight };

struct Components {
    int width = 0;
    int height = 0;
    std::vector<int32_t> labels;  // one a pixel: 0 outside the mask, then 1, 2, ... in the order of their first pixel
    std::vector<int64_t> areas;   // by label; areas[0] counts the pixels outside

    int count() const { return static_cast<int>(areas.size()) - 1; }
};

Components label_components(const Mask& mask, Connectivity connectivity = Connectivity::eight);
// The same for a row-major map of bytes; 0 is outside.
Components label_components(std::span<const uint8_t> inside, int width, int height, Connectivity connectivity);

// Meta's remove_small_regions, mode "holes": background regions (8-connected, those at the border too) of fewer than
// min_area pixels are filled. Returns whether anything changed.
bool fill_small_holes(Mask& mask, int64_t min_area);

// The same, mode "islands": foreground regions of fewer than min_area pixels go; when all are that small the largest
// stays.
bool remove_small_islands(Mask& mask, int64_t min_area);

// SAM 2's clean-up on logits [height, width]: background regions (logit <= 0) of at most max_area pixels become +0.1.
void fill_holes_in_logits(std::span<float> logits, int width, int height, int64_t max_area);

// SAM 3's counterpart: foreground regions of at most max_area pixels, and at most half of the foreground, become -0.1.
void remove_sprinkles_in_logits(std::span<float> logits, int width, int height, int64_t max_area);

}  // namespace sam3
