#pragma once

#include "mask/mask.h"

#include <string>
#include <string_view>
#include <vector>

// Run-length encoded masks as COCO stores them: columns from the left, each from the top, in runs of alternately 0 and
// 1 pixels, beginning with 0 (so the first run may be empty).
namespace sam3 {

struct Rle {
    int width = 0;
    int height = 0;
    std::vector<uint32_t> counts;  // sum to width * height

    bool operator==(const Rle&) const = default;
};

// COCO's box: left, top, width, height in pixels; all 0 for an empty mask.
struct CocoBox {
    int x = 0, y = 0, width = 0, height = 0;

    bool operator==(const CocoBox&) const = default;
};

Rle rle_encode(const Mask& mask);
Mask rle_decode(const Rle& rle);

// COCO's compressed "counts" string, byte for byte as pycocotools writes it.
std::string rle_to_string(const Rle& rle);
// Fails with a sentence for anything but a well-formed string whose runs fill width * height pixels exactly.
Rle rle_from_string(std::string_view text, int width, int height);
// The same check for the uncompressed form, a list of run lengths.
Rle rle_from_counts(std::vector<uint32_t> counts, int width, int height);

// The rest works on the runs; nothing is decoded.
int64_t rle_area(const Rle& rle);
CocoBox rle_box(const Rle& rle);
Rle rle_union(const Rle& a, const Rle& b);
Rle rle_intersection(const Rle& a, const Rle& b);
int64_t rle_intersection_area(const Rle& a, const Rle& b);
double rle_iou(const Rle& a, const Rle& b);  // 0 when both are empty
// Intersection over the area of `detection`: how COCO scores a detection against a crowd region.
double rle_iou_crowd(const Rle& detection, const Rle& crowd);

}  // namespace sam3
