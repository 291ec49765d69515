#pragma once

#include "image/image.h"
#include "mask/mask.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace sam3 {

// What was found on one picture, independent of the model that found it: the input of every writer in this folder and
// the output of every reader. A picture is a still image or a frame of a clip.
struct Segmentation {
    struct Prompt {
        std::string label;   // the phrase, or "visual" for exemplars alone
        float presence = 0;  // probability that the concept is there at all
        Mask semantic;       // empty unless asked for
    };
    struct Candidate {
        float quality = 0;  // predicted IoU with the true mask
        Mask mask;
    };
    struct Instance {
        std::string label;
        int prompt = 0;  // index in prompts
        float score = 0;
        float x0 = 0, y0 = 0, x1 = 0, y1 = 0;  // pixels
        Mask mask;
        std::vector<Candidate> candidates{};  // other readings of the prompt, best first; empty unless asked for
        int id = -1;                          // of a clip's object the same on every frame; -1: its place in the list
    };
    std::string file;    // as given; of a frame it may be empty
    std::string clip;    // that the frame belongs to; empty: a still image, or a clip without a name
    int64_t frame = -1;  // from 0; -1: a still image
    int width = 0, height = 0;
    std::vector<Prompt> prompts;
    std::vector<Instance> instances;
    std::map<std::string, double> seconds;  // by step
};

// One JSON object: image, prompts, detections (label, score, box, area, mask as COCO RLE), timings where there are any.
// Loses nothing but bytes that are not UTF-8.
std::string to_json(const Segmentation& segmentation);
std::string to_json_line(const Segmentation& segmentation);  // the same on one line, its end included
// The reverse of both; `name` begins every sentence. Masks of more than `most_mask_bytes` together are refused.
Segmentation from_json(std::span<const uint8_t> bytes, const std::string& name,
                       int64_t most_mask_bytes = int64_t{4} << 30);

// What an instance is called by: its id, or its place in the list.
int instance_id(const Segmentation& segmentation, size_t place);
bool has_distinct_ids(const Segmentation& segmentation);

// A mask as a grey picture: 255 inside.
Image to_grey(const Mask& mask);

// The image with tinted masks, contours, boxes and labels.
Image draw_overlay(const Image& image, const Segmentation& segmentation);

}  // namespace sam3
