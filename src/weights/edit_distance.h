#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sam3 {

// Number of insertions, deletions and replacements between two texts; `limit` when it is that or more.
int edit_distance(std::string_view a, std::string_view b, int limit);

// The name a person most probably meant: at most a third of its length away. Empty when none is.
std::optional<std::string> closest_name(std::string_view wanted, const std::vector<std::string>& names);

}  // namespace sam3
