#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

// The commands and options of the program as plain data: what the manual, docs/cli.md and the completions are made of.
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
};

struct CommandRow {
    std::string name;  // "segment", "models pull"; of the program itself empty
    std::string description, footer;
    std::vector<OptionRow> options;
    std::vector<std::string> subcommands;  // their last words
};

// The program first, then its commands in order, each followed by its own.
std::vector<CommandRow> option_table(const CLI::App& program);

}  // namespace sam3::cli
