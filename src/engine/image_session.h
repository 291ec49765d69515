#pragma once

#include "engine/model.h"
#include "image/image.h"
#include "mask/geometry.h"
#include "mask/mask.h"
#include "runtime/ops.h"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace sam3 {

struct Point {
    float x = 0, y = 0;
};

struct ConceptOptions {
    float threshold = 0.5F;      // scores above it are kept
    float nms_threshold = 1.0F;  // overlap above which the weaker goes; >= 1: no suppression
    bool nms_on_boxes = false;   // else on masks
    int top_k = 0;               // 0: no limit
    bool semantic = false;
};

// A concept to look for, in pixels of the original image.
struct ConceptPrompt {
    std::string text;
    std::vector<Box> positive_boxes, negative_boxes;
    std::vector<Point> positive_points, negative_points;
    int image = 0;  // index in the encoded batch
    ConceptOptions options;
};

struct Detection {
    float score = 0;
    Box box;
    Mask mask;
    int query = 0;  // which of the decoder's queries
};

struct ConceptResult {
    float presence = 0;
    std::vector<Detection> detections;  // best first
    Mask semantic;                      // empty unless asked for
};

// One thread's work on a batch of images: encode once, prompt often.
class ImageSession {
public:
    ImageSession(std::shared_ptr<const Model> model, int threads);

    void encode(std::span<const Image> images);
    bool encoded() const { return !sizes_.empty(); }
    std::vector<ConceptResult> segment(std::span<const ConceptPrompt> prompts);

    Ops& ops() { return ops_; }
    const std::map<std::string, double>& seconds() const { return seconds_; }  // by step, since the last encode

private:
    struct ImageSize {
        int width = 0, height = 0;
    };
    GeometryPrompt geometry_of(const ConceptPrompt& prompt) const;
    PromptPart encode_prompt(const ConceptPrompt& prompt);
    ImageFeatures features_for(std::span<const ConceptPrompt> prompts);
    void detect_batch(std::span<const ConceptPrompt> prompts, std::vector<ConceptResult>& results);
    ConceptResult read_out(const Sam3Detector::Output& output, int64_t row, const ConceptPrompt& prompt);
    Tensor candidate_masks(const Sam3Detector::Output& output, int64_t row, const std::vector<Detection>& candidates);
    Mask upsample(const Tensor& logits, int64_t index, const ImageSize& size) const;

    std::shared_ptr<const Model> model_;
    Ops ops_;
    ImageFeatures features_;
    std::vector<ImageSize> sizes_;
    std::map<std::string, double> seconds_;
};

}  // namespace sam3
