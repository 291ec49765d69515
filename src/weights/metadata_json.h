#pragma once

#include "weights/metadata.h"

#include <nlohmann/json.hpp>

#include <limits>

namespace sam3 {

// At most `limit` items of an array; arrays inside of arrays are only named.
nlohmann::json to_json(const MetadataValue& value, size_t limit = std::numeric_limits<size_t>::max());

}  // namespace sam3
