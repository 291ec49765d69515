#pragma once

#include "mask/mask.h"

#include <span>
#include <vector>

// Boxes and masks compared: overlaps and non-maximum suppression.
namespace sam3 {

struct Point {
    float x = 0, y = 0;

    bool operator==(const Point&) const = default;
};

// Corners in pixels; x1 and y1 lie past the last pixel.
struct Box {
    float x0 = 0, y0 = 0, x1 = 0, y1 = 0;

    bool operator==(const Box&) const = default;
};

struct PixelBox {
    int x0 = 0, y0 = 0, x1 = 0, y1 = 0;  // half open: [x0, x1) x [y0, y1)

    bool empty() const { return x1 <= x0 || y1 <= y0; }
    bool operator==(const PixelBox&) const = default;
};

// The smallest box around the mask; all 0 when the mask is empty. The reference's "mask to box" names the last pixel
// instead, so its right and bottom are smaller by one.
PixelBox mask_bounds(const Mask& mask);
Box box_around(const Mask& mask);  // the same as a Box

enum class Overlap {
    iou,  // intersection over union
    iom,  // intersection over the smaller of the two
};

float box_iou(const Box& a, const Box& b);                                         // 0 when both have no area
float mask_overlap(const Mask& a, const Mask& b, Overlap measure = Overlap::iou);  // 0 when the divisor is 0
// All pairs of two lists of masks of one size: rows for a, columns for b.
std::vector<float> mask_overlaps(std::span<const Mask> a, std::span<const Mask> b, Overlap measure = Overlap::iou,
                                 int threads = 1);

// Indices of the boxes that survive, best score first, equal scores in their order: torchvision.ops.nms. A box goes
// when its overlap with a better kept one is greater than the threshold, compared in double precision as there.
std::vector<int> nms_boxes(std::span<const Box> boxes, std::span<const float> scores, double threshold);

// The same for masks of one size, compared in single precision as the reference's mask NMS does.
std::vector<int> nms_masks(std::span<const Mask> masks, std::span<const float> scores, float threshold,
                           Overlap measure = Overlap::iou);

}  // namespace sam3
