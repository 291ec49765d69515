#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace sam3::cli {

// What is wrong with a command line, and what to try, as a sentence.
std::string explain_usage(const CLI::ParseError& error, const CLI::App& program);

}  // namespace sam3::cli
