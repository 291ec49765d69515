#pragma once

#include "engine/text_cache.h"
#include "models/sam3_detector.h"
#include "text/clip_tokenizer.h"

#include <memory>
#include <optional>
#include <string>

namespace sam3 {

struct LoadOptions {
    std::string path;
    std::string behaviour;  // empty: as the file says
    int64_t image_size = 0;  // 0: as the file says
    int threads = 1;
};

// A loaded network with its tokenizer. Shared by any number of sessions and threads; only the text cache changes.
class Model {
public:
    static std::shared_ptr<const Model> load(const LoadOptions& options);

    Device& device() const { return *device_; }
    const Sam3Config& config() const { return detector_->config(); }
    const Sam3Detector& detector() const { return *detector_; }
    int64_t image_size() const { return image_size_; }

    // Features of a phrase, computed once: [context, D] and how many leading tokens are real.
    TextFeatures text_features(Ops& ops, const std::string& phrase) const;

private:
    Model() = default;

    std::shared_ptr<Device> device_;
    std::unique_ptr<Sam3Detector> detector_;
    std::optional<ClipTokenizer> tokenizer_;
    int64_t image_size_ = 0;
    mutable TextCache text_cache_;
};

}  // namespace sam3
