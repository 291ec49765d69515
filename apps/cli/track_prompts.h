#pragma once

#include "engine/image_session.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

// The options that point at objects of a video: --point, --neg-point, --box and --mask, each with FRAME:ID: in front.
namespace sam3::cli {

// Everything said about one object on one frame.
struct VideoPrompt {
    int64_t frame = 0;
    int id = 0;
    VisualQuery query;
    std::string mask_file{};  // an image of the frame's size; empty: none
};

class TrackPromptOptions {
public:
    void add_to(CLI::App& command);
    // By frame, then by id; fails with a UsageError that names the option.
    std::vector<VideoPrompt> prompts() const;
    // As they were typed: what a resumed run must repeat.
    std::vector<std::string> words() const;

private:
    std::vector<std::string> points_, negatives_, boxes_, masks_;
};

}  // namespace sam3::cli
