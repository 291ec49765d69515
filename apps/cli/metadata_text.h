#pragma once

#include "weights/metadata.h"

#include <string>

namespace sam3::cli {

// A value for a line of text: long texts and arrays are cut, with their size.
std::string metadata_text(const MetadataValue& value);

}  // namespace sam3::cli
