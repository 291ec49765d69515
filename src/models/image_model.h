#pragma once

#include "models/interactive_head.h"
#include "runtime/ops.h"

#include <cstdint>
#include <vector>

namespace sam3 {

class MemoryTracker;
class Sam3Detector;

// How an image becomes the network's square input.
struct Preprocessing {
    int64_t size = 0;          // side in pixels
    int64_t multiple = 1;      // other sides must be multiples of this
    bool keep_aspect = false;  // scale the longer side and pad at the right and bottom; else stretch
    std::vector<float> mean, std;
};

// When the interactive head's single mask gives way to its best candidate.
struct StabilityRule {
    bool active = false;
    float delta = 0.05F;
    float threshold = 0.98F;

    // Whether a mask's outline stays put: most pixels above -delta are also above +delta. Host memory.
    bool holds(const Tensor& logits) const;
};

// A model that encodes an image once and answers prompts on it. Immutable after loading; any thread may use it.
class ImageModel {
public:
    virtual ~ImageModel() = default;

    virtual const Preprocessing& preprocessing() const = 0;
    // pixels [N, S, S, 3], normalised -> [N, H, W, C]; every head starts from it
    virtual Tensor encode(Ops& ops, const Tensor& pixels) const = 0;

    // Clicks, boxes and masks; null when the file has no interactive head.
    virtual const InteractiveHead* interactive_head() const = 0;
    virtual std::vector<InteractiveFeatures> interactive_features(Ops& ops, const Tensor& trunk) const = 0;
    virtual StabilityRule stability_rule() const { return {}; }

    // Following objects through a video; null when the file has no memory.
    virtual const MemoryTracker* tracker() const { return nullptr; }

    // Concepts by text and exemplar; null when the model has no detector.
    virtual const Sam3Detector* detector() const { return nullptr; }
};

}  // namespace sam3
