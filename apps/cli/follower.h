#pragma once

#include "engine/concept_tracker.h"
#include "engine/visual_tracker.h"
#include "track_prompts.h"

#include <memory>
#include <string>
#include <vector>

// What a video job drives: frames go in one by one, finished frames come out. Two kinds, for text and for clicks.
namespace sam3::cli {

class Follower {
public:
    virtual ~Follower() = default;

    // Frames that must be looked at before the first is pushed, each once; begin() is called with each.
    virtual std::vector<int64_t> prompted_frames() const { return {}; }
    virtual void begin(const Image& /*image*/, int64_t /*frame*/) {}
    virtual std::vector<VideoFrameResult> push(const Image& image, int64_t frame, bool reverse) = 0;
    // At the end of a pass in one direction: the frames that were held back.
    virtual std::vector<VideoFrameResult> end_pass() = 0;
    // The state between two frames.
    virtual void save(const std::string& path) const = 0;
    virtual void restore(const std::string& path) = 0;
};

// Prompts correct objects that were found, by their id, on their frames.
std::unique_ptr<Follower> follow_concepts(std::shared_ptr<ImageSession> session, const ConceptVideoOptions& options,
                                          std::vector<VideoPrompt> prompts);

// Prompts make objects. All are answered when begin() is called with their frames; of a pipe, each when its frame
// comes.
std::unique_ptr<Follower> follow_clicks(std::shared_ptr<ImageSession> session, const VisualVideoOptions& options,
                                        std::vector<VideoPrompt> prompts);

}  // namespace sam3::cli
