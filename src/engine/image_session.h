#pragma once

#include "engine/model.h"
#include "engine/timing.h"
#include "image/image.h"
#include "image/normalize.h"
#include "mask/geometry.h"
#include "mask/mask.h"
#include "mask/upsample.h"
#include "runtime/ops.h"
#include "util/size_cache.h"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sam3 {

struct ConceptOptions {
    float threshold = 0.5F;      // scores above it are kept
    float nms_threshold = 1.0F;  // overlap above which the weaker goes; >= 1: no suppression
    bool nms_on_boxes = false;   // else on masks
    int top_k = 0;               // 0: no limit
    bool semantic = false;
    bool full_size = true;  // else Detection::mask stays empty, the logits are all that is wanted
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
    int query = 0;    // which of the decoder's queries
    Tensor logits{};  // host [h, w] at the network's resolution; may go into a VisualQuery to correct the mask
};

struct ConceptResult {
    float presence = 0;
    std::vector<Detection> detections;  // best first
    Mask semantic;                      // empty unless asked for
};

// What a person points at: one object, in pixels of the original image.
struct VisualQuery {
    struct LabeledPoint {
        float x = 0, y = 0;
        bool positive = true;
    };
    std::vector<LabeledPoint> points;
    std::optional<Box> box;
    Tensor mask_logits{};  // host [h, w] at the decoder's resolution: an earlier answer's; undefined: none
    Mask mask{};           // or a mask of the image's size; empty: none
    bool multimask = false;
    int image = 0;
};

struct VisualCandidate {
    float iou = 0;  // predicted quality
    Mask mask;
    Tensor logits;  // host [h, w], to be fed back as mask_logits
    int index = 0;  // which of the decoder's masks: 0 is the single one, then the candidates
};

struct VisualAnswer {
    std::vector<VisualCandidate> candidates;  // one, or with multimask all of them, best first
    float object_score = 1;                   // probability that the object is there; 1 where a model does not say
};

// The decoder's readings of single clicks before any is chosen or enlarged, in host memory.
struct PointCandidates {
    Tensor logits;  // [points, candidates, h, w]
    Tensor iou;     // [points, candidates]: predicted quality
};

// Detections that stay in the memory of the device, best first.
struct DeviceDetections {
    Tensor scores;  // [1, K]
    Tensor boxes;   // [1, K, 4]: centre, width and height as parts of the image
    Tensor masks;   // u8 [K, H, W]
};

// The network's part for some prompts, on which the device may still be at work.
struct StartedConcepts {
    size_t prompts = 0;  // the first so many
    Sam3Detector::Output output{};
};

// One thread's work on a batch of images: encode once, prompt often.
class ImageSession {
public:
    ImageSession(std::shared_ptr<const Model> model, int threads);

    // What will be asked, where that is known before the image: a GPU then has phrases to read while the host prepares
    // the image. Not needed otherwise.
    void expect(std::span<const ConceptPrompt> prompts);
    void encode(std::span<const Image> images);
    // Pixels that are in the device's memory already, u8 [N, S, S, 3], S the network's own size.
    void encode_on_device(const Tensor& pixels);
    bool encoded() const { return !sizes_.empty(); }

    // Begins with prompts and does not wait for the device; segment() with the same prompts goes on from there.
    StartedConcepts start(std::span<const ConceptPrompt> prompts);
    std::vector<ConceptResult> segment(std::span<const ConceptPrompt> prompts, const StartedConcepts& started = {});

    // The `count` best detections whatever their scores, at the size of the image, without waiting for the device:
    // for programs whose next step runs there too. The prompt's options are not looked at.
    DeviceDetections segment_on_device(const ConceptPrompt& prompt, int64_t count);

    // Masks for clicks, boxes and earlier masks; all objects of an image share its features.
    std::vector<VisualAnswer> segment(std::span<const VisualQuery> queries);

    // One object for each positive click, all in one call of the decoder: for grids of points, most of whose masks are
    // thrown away before they are enlarged.
    PointCandidates decode_points(std::span<const Point> points, int image = 0);
    // One of those, logits [h, w], at the size of the image.
    StableMask enlarge(const Tensor& logits, float stability_offset, int image = 0) const;

    // What the heads for clicks and tracking start from; valid until the next encode.
    const InteractiveFeatures& interactive_features(int image = 0);
    // Points and box in pixels of the network's input, checked; a correction may consist of negative points alone.
    VisualPrompt to_network(const VisualQuery& query, bool correction = false) const;
    uint64_t encodings() const { return encodings_; }  // how often encode has succeeded
    Size original_size(int image = 0) const { return {size_of(image).width, size_of(image).height}; }

    const Model& model() const { return *model_; }
    const std::shared_ptr<const Model>& shared_model() const { return model_; }
    Ops& ops() { return ops_; }
    const std::map<std::string, double>& seconds() const { return seconds_; }  // by step, since the last encode
    // Whether a step's seconds wait for the device, which otherwise works on while the next step begins.
    void wait_for_steps(bool wait) { wait_for_steps_ = wait; }
    // Adds what happens until the end of its scope to the seconds of a step; trackers have steps of their own.
    Timing time_step(const char* step) { return Timing(seconds_[step], wait_for_steps_ ? &ops_.device() : nullptr); }

private:
    struct ImageSize {
        int width = 0, height = 0;                // of the original image
        int scaled_width = 0, scaled_height = 0;  // of its part of the network's input
    };
    GeometryPrompt geometry_of(const ConceptPrompt& prompt) const;
    PromptPart encode_prompt(const ConceptPrompt& prompt);
    const DetectorFeatures& detector_features();
    Tensor encode_geometry(int image, const GeometryPrompt& geometry);
    DetectorFeatures features_for(std::span<const ConceptPrompt> prompts);
    Sam3Detector::Output detect(std::span<const ConceptPrompt> prompts);
    void read_out(const Sam3Detector::Output& output, std::span<const ConceptPrompt> prompts,
                  std::vector<ConceptResult>& results);
    ConceptResult read_out(const Sam3Detector::Output& output, int64_t row, const float* answers,
                           const ConceptPrompt& prompt);
    Tensor candidate_masks(const Sam3Detector::Output& output, int64_t row, const std::vector<Detection>& candidates);
    void forget_images();
    void encode_pixels(const Tensor& pixels, std::vector<ImageSize> sizes);
    Normalization normalization() const;
    Tensor normalized(const Tensor& bytes);
    Tensor resized_on_device(const Image& image, int side);
    Tensor resampled(const Tensor& x, int from, int to);
    void upsample_on_device(const Tensor& logits, const std::vector<int>& kept, const ImageSize& size,
                            std::vector<Detection>& detections);
    Mask upsample(const Tensor& logits, int64_t index, const ImageSize& size) const;

    const InteractiveFeatures& clickable_features(int image);  // the same, ready for many clicks
    InteractivePrompt interactive_prompt(const VisualQuery& query);
    Tensor mask_to_logits(const Mask& mask, const ImageSize& size);
    Tensor on_image(const Tensor& masks, const ImageSize& size);
    VisualAnswer answer(const Tensor& masks, const Tensor& iou, const Tensor& scores, const Tensor& on_image,
                        int64_t row, const VisualQuery& query);
    Mask to_image(const Tensor& logits, const ImageSize& size) const;
    FloatMap image_part(const Tensor& logits, const ImageSize& size, std::vector<float>& buffer) const;
    const ImageSize& size_of(int image) const;

    std::shared_ptr<const Model> model_;
    Ops ops_;
    Tensor trunk_;                                           // the image encoder's output
    DetectorFeatures detector_features_;                     // made by the first concept prompt
    std::vector<InteractiveFeatures> interactive_features_;  // made by the first click
    std::vector<ImageSize> sizes_;
    struct ResizeAxis {
        Tensor first, weights;
        int precision;
    };
    SizeCache<ResizeAxis> axes_;  // by the lengths before and after
    Tensor mean_and_std_;         // [2, 3 or 12], made by the first picture that the device normalises
    uint64_t encodings_ = 0;
    bool wait_for_steps_ = false;
    std::map<std::string, double> seconds_;
};

}  // namespace sam3
