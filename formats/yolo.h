#pragma once

#include "formats/record_files.h"

#include <map>
#include <span>
#include <string>

namespace sam3 {

// The label file of a picture of this size.
Segmentation parse_yolo_labels(LineReader& lines, int width, int height, const std::map<int, std::string>& names,
                               int64_t most_mask_bytes);
// The names of the classes in a data.yaml.
std::map<int, std::string> parse_yolo_names(std::span<const uint8_t> bytes);

}  // namespace sam3
