#pragma once

#include "media/video_reader.h"
#include "model_options.h"
#include "track_prompts.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

// What `sam3 track` can be told.
namespace sam3::cli {

struct TrackOptions {
    ModelOptions model;
    TrackPromptOptions pointed;
    std::string video, output, truth;
    std::vector<std::string> texts, formats;
    std::vector<VideoPrompt> prompts;  // what `pointed` says, once it is checked
    std::string direction = "forward";
    int64_t start = -1;   // -1: the first frame, or the first with a prompt
    int64_t frames = -1;  // -1: to the end
    std::string raw_size;
    float fps = 30;
    float threshold = -1, new_threshold = -1;  // below 0: the model's
    int max_objects = -1;
    bool immediate = false;
    bool separate = false;
    int clean_up = 0;
    int history = 16;
    int checkpoint = 25;
    bool resume = false, overwrite = false;
    bool quiet = false;

    void add_to(CLI::App& command);
    void check();  // fails with a UsageError; afterwards `prompts` are there

    // Frames that come once, of a number that is not known.
    bool is_stream() const { return video == "-" || is_camera(video); }
    FrameOptions frame_options() const;
    // What must be the same for a run to go on with another's work.
    nlohmann::json job(const VideoInfo& info) const;
};

}  // namespace sam3::cli
