#pragma once

#include "mask/mask.h"
#include "runtime/tensor.h"

#include <span>
#include <vector>

// Rules over the masks of one frame. A stack is a host tensor [N, h, w] of logits at the decoder's resolution; a pixel
// lies inside where its logit is above 0. No masks: an undefined tensor.
namespace sam3 {

Tensor copy_of(const Tensor& masks);  // host memory of its own
int64_t stack_size(const Tensor& stack);
std::span<float> stack_row(const Tensor& stack, int64_t index);
std::vector<Mask> inside(const Tensor& stack, int threads = 1);
bool any_inside(std::span<const float> logits);

// Detections that count: score above the threshold and, with nms > 0, not overlapped by a better one by more than nms.
// Ascending indices.
std::vector<int> kept_detections(std::span<const float> scores, const Tensor& stack, float threshold, float nms);

// Fills holes and then removes specks of at most max_area pixels, in place (mask/components.h).
void clean_up(const Tensor& stack, int64_t max_area, int threads = 1);

// What memories are made of: a mask that keeps less than 0.3 of its area when each pixel goes to the highest logit of
// its group is emptied (at most -10). The others stay whole. The stack itself where none is emptied.
Tensor without_shrunken(const Tensor& stack, std::span<const int> groups, int threads = 1);

// Gives each pixel to the mask with the highest score of its group, the first of equals, in place; a mask whose score
// is not above 0 gets none.
void separate(std::span<Mask> masks, std::span<const float> scores, std::span<const int> groups, int threads = 1);

}  // namespace sam3
