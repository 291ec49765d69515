#pragma once

#include "clicks.h"
#include "image_task.h"
#include "inputs.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

// What to look for: the options of the command line, and files with prompts for each picture.
namespace sam3::cli {

class ImagePromptOptions {
public:
    void add_to(CLI::App& command);
    // Fails with a UsageError that names the option.
    ImageTask task() const;
    // Whatever changes a result, for the journal.
    nlohmann::ordered_json settings() const;

    // A line of --prompts: {"image": "a.jpg", "text": ["dog"], "exemplars": [[x0,y0,x1,y1]], "objects": [...]}.
    // What it does not say is as on the command line.
    ImageTask task_of(const nlohmann::ordered_json& line, const std::string& folder) const;

private:
    ConceptPrompt common() const;

    ClickOptions clicks_;
    std::vector<std::string> texts_, exemplars_, negative_exemplars_, points_, negative_points_;
    bool multimask_ = false;
    float threshold_ = -1;  // below 0: the behaviour's default
    float nms_ = 1;
    std::string nms_on_ = "masks";
    int top_k_ = 0;
    bool semantic_ = false;
};

struct PromptedInputs {
    std::vector<Input> inputs;  // in natural order, with their task
    std::vector<ImageTask> tasks;
    std::string fingerprint;  // of the file, for the journal
};

// Pictures and prompts from a JSON Lines file, or "-"; paths are relative to the file's folder. Fails with a sentence
// that names the line.
PromptedInputs read_prompts(const std::string& path, const ImagePromptOptions& options);

}  // namespace sam3::cli
