#pragma once

#include "formats/json_masks.h"
#include "formats/record_files.h"

#include <string>
#include <unordered_map>

// Pieces that COCO's and YouTube-VIS' files share.
namespace sam3 {

// What a picture is called in them: its file; of a frame without one "CLIP/00012".
std::string file_name_of(const Segmentation& record);

Json coco_box(const Segmentation::Instance& instance);  // x, y, width, height
void set_coco_box(Segmentation::Instance& instance, const Json& json);
// segmentation, area and bbox
Json coco_object(const Segmentation::Instance& instance, const WriteOptions& options);

Json named_list(const LabelNumbers& labels);  // [{"id": 1, "name": "..."}, ...]
const Json& list_in(const Json& json, const char* name);
std::unordered_map<int64_t, std::string> names_by_id(const Json& json, const char* name);
std::string name_of(const std::unordered_map<int64_t, std::string>& names, int64_t id, const char* what);

}  // namespace sam3
