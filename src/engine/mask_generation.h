#pragma once

#include "engine/image_session.h"
#include "mask/rle.h"

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

// Masks for everything in an image: a grid of clicks, filtered and freed of duplicates. Options, defaults and order of
// the steps are those of Meta's SamAutomaticMaskGenerator. Without crops transformers' mask-generation pipeline gives
// the same masks, but for these:
//   - its grid for SAM 3 is scaled as if the image kept its aspect, so on an image that is not square it leaves a part
//     without points; here points cover the whole image;
//   - it keeps a stability above the threshold, Meta and this code one that equals it too;
//   - it has no small-region clean-up, and its crops fail (it stacks images of different sizes);
//   - both list a mask without any pixel when no threshold removes it; here it is left out.
namespace sam3 {

inline constexpr int kMostCropLayers = 8;  // 4^8 crops are more than anyone waits for

struct MaskGenerationOptions {
    int points_per_side = 32;                 // of the grid on the whole image
    int points_per_batch = 64;                // through the decoder together; changes memory and speed, not the result
    float pred_iou_thresh = 0.88F;            // predicted quality above it stays; 0: all
    float stability_score_thresh = 0.95F;     // stability of at least that stays; 0: all
    float stability_score_offset = 1.0F;      // how far the logit moves up and down for the stability
    double box_nms_thresh = 0.7;              // boxes of one crop that overlap more are duplicates
    int crop_n_layers = 0;                    // layer n adds 4^n crops of the image, each encoded again
    double crop_nms_thresh = 0.7;             // the same for boxes of different crops: the smaller crop wins
    double crop_overlap_ratio = 512. / 1500;  // of the image's shorter side, in layer 1; half of it in layer 2, ...
    int crop_n_points_downscale_factor = 1;   // layer n has points_per_side / factor^n points a side
    int64_t min_mask_region_area = 0;         // smaller holes are filled, smaller islands removed; 0: neither
};

struct GeneratedMask {
    Rle segmentation;  // of the image's size
    PixelBox box;      // around the mask
    float predicted_iou = 0;
    float stability_score = 0;
    Point point;        // the click that made it
    PixelBox crop_box;  // the part of the image that the network saw
};

struct MaskGenerationProgress {
    size_t crop = 0, crops = 0;    // crop counts from 0
    size_t point = 0, points = 0;  // of this crop
    size_t masks = 0;              // that passed the filters so far, duplicates among them
};

struct MaskGeneration {
    std::vector<GeneratedMask> masks;       // smallest crops first, then best predicted quality first
    std::map<std::string, double> seconds;  // by step, over all crops
};

// The session's encoded images are replaced. `progress`, when given, is called before each batch. Memory does not grow
// with the grid: what passes the filters of a batch is kept as run lengths.
MaskGeneration generate_masks(ImageSession& session, const Image& image, const MaskGenerationOptions& options,
                              const std::function<void(const MaskGenerationProgress&)>& progress = {});

struct CropBox {
    PixelBox box;
    int layer = 0;
};

// The whole image, then the crops of each layer, columns from the left. Fails when the image is too small for them.
std::vector<CropBox> generate_crop_boxes(int width, int height, int layers, double overlap_ratio);

// Fills holes and removes islands of fewer than min_area pixels, then drops duplicates, where masks that needed no
// change win over those that did. Unchanged masks come first.
void remove_small_regions(std::vector<GeneratedMask>& masks, int64_t min_area, double nms_threshold);

}  // namespace sam3
