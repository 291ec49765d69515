#pragma once

#include "formats/segmentation.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sam3 {

// What is to be seen on one frame of a video, independent of the model that found it.
struct TrackedObjects {
    struct Object {
        int id = 0;         // the same on every frame
        std::string label;  // the phrase it was found by, or "object"
        float score = 0;
        float x0 = 0, y0 = 0, x1 = 0, y1 = 0;  // pixels
        Mask mask;
    };
    int64_t frame = 0;
    int width = 0, height = 0;
    std::vector<Object> objects;  // by ascending id
};

// One JSON object on one line, its end included: frame, width, height, objects (id, label, score, box, area, mask as
// COCO RLE). Loses nothing.
std::string to_json_line(const TrackedObjects& tracked);
// The reverse; fails with a sentence that begins with `where`.
TrackedObjects from_json_line(std::string_view line, const std::string& where,
                              int64_t most_mask_bytes = int64_t{4} << 30);

// The record of the frame, which every format takes (formats/result_formats.h), and back.
Segmentation to_record(const TrackedObjects& tracked, const std::string& clip);
TrackedObjects from_record(const Segmentation& record);
// For draw_overlay: labels have their ids, and colours follow them.
Segmentation to_segmentation(const TrackedObjects& tracked);

// A PNG file with the palette of DAVIS: 0 is background, an object's id + 1 its pixels. Loses labels, scores and
// overlaps (the object with the higher id is on top); ids above 254 make it a 16-bit grey file.
std::vector<uint8_t> to_label_map(const TrackedObjects& tracked);

}  // namespace sam3
