#pragma once

#include "formats/result_formats.h"

#include <functional>
#include <memory>
#include <string>

// Text formats with a file for each clip.
namespace sam3 {

// `path` ends in `extension`: the file of the only clip. Otherwise a folder with CLIP + extension for each. `text_of`
// gives the lines of one frame.
std::unique_ptr<DatasetWriter> clip_writer(const std::string& path, const std::string& extension,
                                           std::function<std::string(const Segmentation&)> text_of);

// Tells a writer when another clip begins; a clip whose frames do not come one after another, in their order, is
// refused.
class ClipOrder {
public:
    bool begins(const Segmentation& record);  // whether this is the first frame of its clip

private:
    std::map<std::string, int64_t> last_frames_;
    std::string clip_;
};

}  // namespace sam3
