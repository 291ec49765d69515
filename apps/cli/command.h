#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <string>

// One file a subcommand: add_NAME declares its options and, when the user chose it, leaves in `chosen` what to run.
// Results go to stdout; a failure is a thrown sam3::Error, which main prints.
namespace sam3::cli {

using Action = std::function<void()>;

void add_bench(CLI::App& program, Action& chosen);
void add_completion(CLI::App& program, Action& chosen);
void add_convert(CLI::App& program, Action& chosen);
void add_convert_format(CLI::App& program, Action& chosen);
void add_doctor(CLI::App& program, Action& chosen);
void add_eval(CLI::App& program, Action& chosen);
void add_everything(CLI::App& program, Action& chosen);
void add_help(CLI::App& program, Action& chosen);
void add_inspect(CLI::App& program, Action& chosen);
void add_merge(CLI::App& program, Action& chosen);
void add_models(CLI::App& program, Action& chosen);
void add_quantize(CLI::App& program, Action& chosen);
void add_segment(CLI::App& program, Action& chosen);
void add_track(CLI::App& program, Action& chosen);

// "12.5 MB", as file managers count: 1000 bytes to the kB.
std::string pretty_size(uint64_t bytes);
// "1,234,567"
std::string pretty_count(uint64_t count);
// What a terminal shows unharmed: control characters as \xNN.
std::string printable(const std::string& text);

}  // namespace sam3::cli
