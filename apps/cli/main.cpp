#include "command.h"
#include "help_text.h"
#include "sam3.h"
#include "usage_errors.h"
#include "values.h"
#include "weights/edit_distance.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <new>
#include <string_view>
#include <vector>

namespace {

constexpr int kDone = 0, kFailed = 1, kWrongUsage = 2;

// In the order of the help, with the heading that they stand under.
struct Command {
    const char* group;
    void (*add)(CLI::App&, sam3::cli::Action&);
};
constexpr Command kCommands[] = {
    {"Find objects", sam3::cli::add_segment},    {"Find objects", sam3::cli::add_track},
    {"Find objects", sam3::cli::add_everything}, {"Results", sam3::cli::add_convert_format},
    {"Results", sam3::cli::add_merge},           {"Results", sam3::cli::add_eval},
    {"Models", sam3::cli::add_models},           {"Models", sam3::cli::add_convert},
    {"Models", sam3::cli::add_quantize},         {"Models", sam3::cli::add_inspect},
    {"This program", sam3::cli::add_doctor},     {"This program", sam3::cli::add_bench},
    {"This program", sam3::cli::add_completion}, {"This program", sam3::cli::add_help},
};

int report(int code, const std::string& message) {
    std::cout.flush();
    std::cerr << "sam3: error: " << message << "\n";
    return code;
}

// Results are done when they are written: a full disk is an error, a reader that has seen enough is not.
int finish_output() {
    errno = 0;
    std::cout.flush();
    if (std::cout || errno == EPIPE) return kDone;
    pollfd out{STDOUT_FILENO, POLLOUT, 0};  // an earlier write may have failed: does anybody still read?
    if (poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0) return kDone;
    const std::string why = errno != 0 ? std::strerror(errno) : "is the disk full?";
    return report(kFailed, "could not write the results: " + why);
}

int run(const sam3::cli::Action& action) {
    try {
        action();
        return finish_output();
    } catch (const sam3::cli::UsageError& error) {
        return report(kWrongUsage, error.what());
    } catch (const std::bad_alloc&) {
        return report(kFailed, "out of memory");
    } catch (const std::exception& error) {
        return report(kFailed, error.what());
    }
}

int parse_and_run(CLI::App& program, sam3::cli::Action& chosen, int argc, char** argv) {
    if (argc < 2) {
        std::cerr << program.help();
        return kWrongUsage;
    }
    const std::string_view first = argv[1];
    std::vector<std::string> names;
    for (const CLI::App* command : program.get_subcommands({})) names.push_back(command->get_name());
    const bool known = std::find(names.begin(), names.end(), first) != names.end();
    if (!first.empty() && first[0] != '-' && !known) {
        const auto guess = sam3::closest_name(first.substr(0, 40), names);
        return report(kWrongUsage,
                      "there is no command '" + sam3::cli::printable(std::string(first.substr(0, 80))) +
                          "': " + (guess ? "did you mean 'sam3 " + *guess + "'?" : "run 'sam3 --help' for the list"));
    }
    // `sam3 models` alone, as `sam3` alone
    if (const CLI::App* command = known ? program.get_subcommand(std::string(first)) : nullptr;
        command != nullptr && argc == 2 && command->get_require_subcommand_min() > 0) {
        std::cerr << command->help();
        return kWrongUsage;
    }
    try {
        program.parse(argc, argv);
    } catch (const CLI::Success& request) {  // --help, --version
        program.exit(request);
        return finish_output();
    } catch (const CLI::ParseError& error) {
        return report(kWrongUsage, sam3::cli::explain_usage(error, program));
    }
    return run(chosen);
}

}  // namespace

int main(int argc, char** argv) {
    // A closed pipe is then a failed write, which finish_output knows, and not the end of the process.
    std::signal(SIGPIPE, SIG_IGN);
    std::ios::sync_with_stdio(false);
    CLI::App program("Segment Anything in C++: find objects in images and videos by a phrase, an example or a click.",
                     "sam3");
    program.formatter_fn([&program](const CLI::App* app, const std::string&, CLI::AppFormatMode) {
        return sam3::cli::to_help(sam3::cli::option_table(program), sam3::cli::command_name(*app),
                                  sam3::cli::help_width());
    });
    program.set_version_flag("--version", std::string("sam3 ") + sam3_version(), "Print the version");
    program.set_help_flag("-h,--help", "Print this help");
    program.require_subcommand(1);
    program.footer(
        "Examples:\n"
        "  sam3 models list                                          # which models are here, and their names\n"
        "  sam3 segment -m sam3 photo.jpg -t \"red car\"               # by text: draws photo_overlay.png\n"
        "  sam3 segment -m sam3 photo.jpg --point 210,130            # the object under a click\n"
        "  sam3 everything -m sam3 photo.jpg                         # everything, without a prompt\n"
        "  sam3 track -m sam3 clip.mp4 -t person -o out -f overlay   # through a video\n"
        "  sam3 segment -m sam3 photos -t dog -o out -f coco,csv     # a folder, into one data set\n"
        "Run 'sam3 COMMAND --help' for the options and examples of a command.\n"
        "Exit codes: 0 done, 1 failed, 2 wrong usage.");
    sam3::cli::Action chosen;
    for (const Command& command : kCommands) {
        command.add(program, chosen);
        program.get_subcommands({}).back()->group(command.group);
    }
    return parse_and_run(program, chosen, argc, argv);
}
