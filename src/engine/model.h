#pragma once

#include "engine/model_registry.h"
#include "engine/text_cache.h"
#include "models/sam3_detector.h"
#include "text/clip_tokenizer.h"

#include <memory>
#include <optional>
#include <string>

namespace sam3 {

struct LoadOptions {
    std::string path;
    std::string behaviour;   // empty: as the file says
    int64_t image_size = 0;  // 0: as the file says
    Parts parts{};
    bool random = false;  // random weights of the published SAM 3's size; of the file only the tokenizer is read
    std::string device = "auto",
                precision = "auto";  // engine/device_choice.h
};

// A loaded network with its tokenizer. Shared by any number of sessions and threads; only the text cache changes.
class Model {
public:
    static std::shared_ptr<const Model> load(const LoadOptions& options);

    Device& device() const { return *device_; }
    const ImageModel& network() const { return *loaded_.network; }
    const std::string& name() const { return loaded_.name; }
    const Behaviour& behaviour() const { return loaded_.behaviour; }
    const ConceptVideoConfig& video_rules() const { return loaded_.video; }
    int64_t image_size() const { return image_size_; }
    Precision precision() const { return precision_; }

    bool finds_concepts() const { return network().detector() != nullptr; }
    bool answers_clicks() const { return network().interactive_head() != nullptr; }
    bool follows_objects() const { return network().tracker() != nullptr; }
    // The part that a job needs; fails with a sentence when this model does not have it.
    const Sam3Detector& detector() const;
    const InteractiveHead& interactive_head() const;
    const MemoryTracker& tracker() const;

    // Features of a phrase, computed once: [context, D] and how many leading tokens are real.
    TextFeatures text_features(Ops& ops, const std::string& phrase) const;
    void forget_phrases() const { text_cache_.clear(); }  // for measurements: the next phrase is computed again

private:
    Model() = default;

    std::string path_;
    std::shared_ptr<Device> device_;
    LoadedNetwork loaded_;
    std::optional<ClipTokenizer> tokenizer_;
    int64_t image_size_ = 0;
    Precision precision_ = Precision::f32;
    mutable TextCache text_cache_;
};

}  // namespace sam3
