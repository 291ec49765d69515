#pragma once

#include "clicks.h"
#include "engine/image_session.h"
#include "formats/segmentation.h"

#include <string>
#include <vector>

// What to look for on one picture, and looking for it.
namespace sam3::cli {

struct ImageTask {
    std::vector<ConceptPrompt> concepts;  // thresholds below 0: the model's
    std::vector<ClickObject> objects;     // beside concepts, they correct what was found
    bool multimask = false;               // three readings of each object

    bool empty() const { return concepts.empty() && objects.empty(); }
    bool needs_clicks() const { return !objects.empty() || multimask; }
};

// Reads the files that the task's objects name. Once, before the first picture.
void load_masks(ImageTask& task);

// Fails with a sentence when the picture and the task do not fit. Everything is filled in but the name of the file.
Segmentation segment_image(ImageSession& session, const Image& image, const ImageTask& task);

}  // namespace sam3::cli
