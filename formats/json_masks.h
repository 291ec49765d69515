#pragma once

#include "mask/track.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>

// Pieces that the readers and writers of COCO-style files share.
namespace sam3 {

using Json = nlohmann::ordered_json;

// Parses a file and hands it to `use`, which names in `where` what it is looking at ("annotation 12"). Whatever is
// wrong becomes a sentence that begins with the file and that.
void read_json(const std::string& path, const std::function<void(const Json& json, std::string& where)>& use);

// An id that may be written as a number or, as in some published files, as a string of digits.
int64_t id_from_json(const Json& json);

// COCO's "segmentation" of a picture of this size: RLE with compressed or plain counts, or a list of polygons.
Rle mask_from_json(const Json& json, int width, int height);
// The masks of a clip's frames; null where the object is not to be seen.
Track track_from_json(const Json& json, size_t frames, int width, int height);

Json mask_to_json(const Rle& mask);  // null when the mask has no counts

}  // namespace sam3
