#pragma once

#include "option_table.h"

#include <string>
#include <vector>

namespace sam3::cli {

// The program's manual for man(1), and the reference part of docs/cli.md.
std::string to_man_page(const std::vector<CommandRow>& commands);
std::string to_markdown(const std::vector<CommandRow>& commands);

// A script that the shell reads: "bash", "zsh" or "fish".
std::string to_completion(const std::vector<CommandRow>& commands, const std::string& shell);

}  // namespace sam3::cli
