#pragma once

#include "mask/geometry.h"
#include "mask/track.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sam3 {

// What is to be seen in a set of images or clips, and what is asked about it.
struct GroundTruth {
    struct Media {  // an image, or a clip
        int64_t id = 0;
        int width = 0, height = 0;
        std::string name;
        std::vector<std::string> files;  // of an image one, of a clip one a frame
    };
    struct Object {
        int64_t id = 0;
        size_t media = 0;  // index
        int64_t category = -1;
        bool crowd = false;     // stands for many objects that cannot be told apart: nothing is measured against it
        bool clickable = true;  // may be asked for by a click (on a clip's first frame)
        Track track;
    };
    struct Prompt {
        int64_t id = 0;    // of SA-Co's pairs their own, else the place in its list
        size_t media = 0;  // index
        std::string phrase;
        int64_t category = -1;
        std::optional<Box> exemplar;
        std::vector<size_t> objects;  // that it means; none: the concept is absent
        bool exhaustive = true;       // SA-Co: every instance is drawn; only such prompts are scored
    };
    std::string path;
    bool video = false;
    bool pairs = false;  // SA-Co's images: predictions name the prompt's id as their image_id
    std::vector<Media> media;
    std::vector<Object> objects;
    std::vector<Prompt> prompts;    // phrases
    std::vector<Prompt> exemplars;  // boxes around one of the objects that are meant
};

// Layouts, told by their content (docs/eval.md): COCO, SA-Co gold and silver (images with text_input), YouTube-VIS,
// SA-Co/VEval (video_np_pairs), and COCO or YouTube-VIS with lists "prompts" and "exemplars".
GroundTruth read_ground_truth(const std::string& path);
GroundTruth parse_ground_truth(std::span<const uint8_t> bytes, const std::string& name);

// Keeps what belongs to the first `count` images or clips.
void keep_first(GroundTruth& truth, size_t count);

}  // namespace sam3
