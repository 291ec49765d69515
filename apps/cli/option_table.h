#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

// The commands and options of the program as plain data: what the help, the manual, docs/cli.md and the
// completions are made of.
namespace sam3::cli {

struct OptionRow {
    std::vector<std::string> shorts, longs;  // "t", "text": without dashes
    std::string positional{};                // "INPUT"; empty: none
    std::string value{};                     // "TEXT", "FLOAT"; empty: a flag
    std::vector<std::string> choices{};      // what it takes, where that is a short list
    std::string description{}, initial{}, variable{}, group{};
    bool required = false, several = false;

    bool flag() const { return value.empty(); }
    std::vector<std::string> words() const;  // "-t", "--text"
    std::string usage() const;               // "-t, --text TEXT"
    std::string details() const;             // the description with default, variable and what else must be known
};

struct CommandRow {
    std::string name;  // "segment", "models pull"; of the program itself empty
    std::string description, footer, group;
    std::vector<OptionRow> options;
    std::vector<std::string> subcommands;  // their last words
};

// "models pull": the words that lead to it; of the program itself empty.
std::string command_name(const CLI::App& app);

// The program first, then its commands in order, each followed by its own.
std::vector<CommandRow> option_table(const CLI::App& program);

}  // namespace sam3::cli
