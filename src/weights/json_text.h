#pragma once

#include <nlohmann/json.hpp>

#include <string_view>

namespace sam3 {

// Parses JSON that comes from outside: nesting is limited before parsing starts, so that hostile text cannot exhaust
// the stack, and errors become sentences. `what` names the text in them, usually its path.
nlohmann::json parse_json(std::string_view text, std::string_view what);

}  // namespace sam3
