#pragma once

#include "option_table.h"

#include <cstddef>
#include <string>
#include <vector>

namespace sam3::cli {

// What `--help` prints of the program (an empty name) or of a command, in lines of at most `width` characters; examples
// stay as they are.
std::string to_help(const std::vector<CommandRow>& commands, const std::string& name, size_t width);

// The terminal's width, within reason; where stdout is none, that of a page.
size_t help_width();

}  // namespace sam3::cli
