#pragma once

#include "image/image.h"
#include "mask/mask.h"

#include <map>
#include <string>
#include <vector>

namespace sam3 {

// What was found on one image, independent of the model that found it: the input of every writer in this folder.
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
        int id = -1;                          // in video, what keeps its colour; -1: its place in the list
    };
    std::string file;  // as given
    int width = 0, height = 0;
    std::vector<Prompt> prompts;
    std::vector<Instance> instances;
    std::map<std::string, double> seconds;  // by step
};

// One JSON object: image, prompts, detections (label, score, box, area, mask as COCO RLE), timings. Loses nothing.
std::string to_json(const Segmentation& segmentation);

// A mask as a grey picture: 255 inside.
Image to_grey(const Mask& mask);

// The image with tinted masks, contours, boxes and labels.
Image draw_overlay(const Image& image, const Segmentation& segmentation);

}  // namespace sam3
