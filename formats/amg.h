#pragma once

#include "mask/geometry.h"
#include "mask/rle.h"

#include <span>
#include <string>

namespace sam3 {

// One mask of automatic mask generation.
struct AmgMask {
    Rle segmentation;
    PixelBox box;
    float predicted_iou = 0;
    float stability_score = 0;
    float x = 0, y = 0;  // the click that made it
    PixelBox crop_box;   // the part of the image that the network saw
};

// What Meta's amg.py writes with --convert-to-rle: a list of objects with segmentation (COCO RLE), area, bbox,
// predicted_iou, point_coords, stability_score and crop_box. Boxes are x, y, width, height; as there, bbox ends at the
// last pixel, so its width and height are smaller by one than the mask's.
std::string to_amg_json(std::span<const AmgMask> masks);

}  // namespace sam3
