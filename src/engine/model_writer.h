#pragma once

#include "weights/weight_type.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

// From any model file to a GGUF file of this program, which holds all that is needed: sizes, behaviour, tokenizer.
namespace sam3 {

struct WriteModelOptions {
    std::string input, output;
    std::optional<WeightType> type;  // empty: f16, and blocks of the input as they are
    bool visual_only = false;        // leaves out text tower, detector and its neck
    bool requantize = false;         // allows blocks to be made from other blocks, which loses twice
    std::string name, licence;       // empty: what the input says
    // Called between tensors with the values that are done and all of them.
    std::function<void(uint64_t done, uint64_t total)> progress;
};

struct WriteModelReport {
    struct Total {
        int64_t tensors = 0;
        uint64_t bytes = 0;
    };
    std::map<std::string, Total> types;  // of the output, by name
    Total written;
    std::string licence;  // empty: unknown
    bool tokenizer = false;
};

// Memory is bounded by the largest tensor. The output appears when it is complete; a failure leaves nothing behind.
WriteModelReport write_model(const WriteModelOptions& options);

}  // namespace sam3
