#pragma once

#include "mask/track.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <string>

// Pieces that the readers and writers of COCO-style files share.
namespace sam3 {

using Json = nlohmann::ordered_json;

// Parses a file's bytes and hands them to `use`, which names in `where` what it is looking at ("annotations[12]").
// Whatever is wrong becomes a sentence that begins with the file's name and that.
void use_json(std::span<const uint8_t> bytes, const std::string& name,
              const std::function<void(const Json& json, std::string& where)>& use);
// The two halves of it, for readers that keep the document.
Json parse_json(std::span<const uint8_t> bytes, const std::string& name);
void name_json_errors(const std::string& name, const std::string& where, const std::function<void()>& use);

// An id that may be written as a number or, as in some published files, as a string of digits.
int64_t id_from_json(const Json& json);
// A whole number from 0 to 2^31 - 1, also written as 336.0 or, for 0 and 1, as a truth value.
int count_from_json(const Json& json);
float finite_from_json(const Json& json);

// COCO's "segmentation" of a picture of this size: RLE with compressed or plain counts, or a list of polygons.
Rle mask_from_json(const Json& json, int width, int height);
// The masks of a clip's frames; null where the object is not to be seen.
Track track_from_json(const Json& json, size_t frames, int width, int height);

Json mask_to_json(const Rle& mask);  // null when the mask has no counts
Json mask_to_json(const Mask& mask);
// The mask as COCO's polygons: [[x, y, x, y, ...], ...], holes cut in by slits without width.
Json polygons_to_json(const Mask& mask, float tolerance);

// Size of a picture: fails with a sentence that names the limit.
void check_picture_size(int64_t width, int64_t height);
// Counts what the masks of one picture take in memory; fails with a sentence that names the limit.
class MaskBudget {
public:
    explicit MaskBudget(int64_t most_bytes) : most_(most_bytes), left_(most_bytes) {}
    void take(int width, int height);

private:
    int64_t most_, left_;
};

// Phrases and file names may hold bytes that are not UTF-8: they are replaced rather than refused.
std::string json_text(const Json& json, int indent = -1);

}  // namespace sam3
