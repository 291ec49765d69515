#pragma once

#include "engine/image_session.h"

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

// The options that point at objects: --point, --neg-point, --box, --mask, and --object between two objects.
namespace sam3::cli {

struct ClickObject {
    VisualQuery query;      // without the mask
    std::string mask_file;  // a mask image, or .npy logits of an earlier answer; empty: none

    bool empty() const { return query.points.empty() && !query.box && mask_file.empty(); }
};

class ClickOptions {
public:
    void add_to(CLI::App& command);
    bool given() const {
        return object_->count() + point_->count() + negative_->count() + box_->count() + mask_->count() > 0;
    }
    // The objects in the order of the command line; fails with a UsageError that names the option.
    std::vector<ClickObject> objects() const;
    // As they were typed, in their order: what a resumed run must repeat.
    std::vector<std::string> words() const;

private:
    const CLI::App* command_ = nullptr;
    CLI::Option *object_ = nullptr, *point_ = nullptr, *negative_ = nullptr, *box_ = nullptr, *mask_ = nullptr;
    std::vector<std::string> points_, negatives_, boxes_, masks_;
};

// Reads what mask_file names into the query: an image of the picture's size (anything above half is inside), or a .npy
// file of logits, [h, w] or [1, h, w].
void load_mask(ClickObject& object);

}  // namespace sam3::cli
