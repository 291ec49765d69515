#pragma once

#include "image_task.h"
#include "inputs.h"
#include "journal.h"
#include "outputs.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

// Many pictures through one model: files are read and results written beside the network's work.
namespace sam3::cli {

// One input after its results are on the disk, or after it failed.
struct Finished {
    const Input* input = nullptr;
    std::string error{};  // a sentence; empty: done
    Segmentation segmentation{};
    Image image{};
    std::string record{};              // the segmentation as a native line, without timings
    std::vector<std::string> files{};  // that were written, relative to the output folder
};

struct Batch {
    std::span<const Input> inputs;
    const std::vector<ImageTask>& tasks;
    ImageSession& session;
    const Outputs& outputs;
    JournalWriter* journal = nullptr;                  // null: none is kept
    std::function<void(const Finished&)> on_finished;  // called in the order of the inputs, by one thread at a time
};

// Works through the inputs until they are done or interrupted() is true; gives how many were finished or failed. An
// input that fails is reported and skipped; what cannot go on (a full disk) fails as a whole.
size_t run_batch(const Batch& batch);

}  // namespace sam3::cli
