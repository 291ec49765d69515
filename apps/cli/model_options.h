#pragma once

#include "engine/model.h"

#include <CLI/CLI.hpp>

#include <memory>
#include <string>

// The options of every command that runs a model: --model, --behaviour, --image-size, --device, --precision and
// --threads.
namespace sam3::cli {

struct ModelOptions {
    ModelOptions();
    void add_to(CLI::App& command, bool required = true);
    std::shared_ptr<const Model> load(const Parts& parts = {}, bool random = false) const;  // only what the job needs

    std::string resolved_path() const;  // of a model that is given by name

    std::string path, behaviour, device = "auto", precision = "auto";
    int64_t image_size = 0;  // 0: the model's own
    int threads;             // as many as this process may use, unless told
};

}  // namespace sam3::cli
