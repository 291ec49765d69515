#include "command.h"
#include "sam3.h"
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

constexpr void (*kCommands[])(CLI::App&, sam3::cli::Action&) = {
    sam3::cli::add_segment,    sam3::cli::add_track,   sam3::cli::add_everything,     sam3::cli::add_merge,
    sam3::cli::add_models,     sam3::cli::add_convert, sam3::cli::add_convert_format, sam3::cli::add_quantize,
    sam3::cli::add_inspect,    sam3::cli::add_eval,    sam3::cli::add_bench,          sam3::cli::add_doctor,
    sam3::cli::add_completion, sam3::cli::add_help,
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
    if (!first.empty() && first[0] != '-' && std::find(names.begin(), names.end(), first) == names.end()) {
        const auto guess = sam3::closest_name(first.substr(0, 40), names);
        return report(kWrongUsage,
                      "there is no command '" + sam3::cli::printable(std::string(first.substr(0, 80))) +
                          "': " + (guess ? "did you mean 'sam3 " + *guess + "'?" : "run 'sam3 --help' for the list"));
    }
    try {
        program.parse(argc, argv);
    } catch (const CLI::Success& request) {  // --help, --version
        program.exit(request);
        return finish_output();
    } catch (const CLI::ParseError& error) {
        const auto parsed = program.get_subcommands();
        const std::string command = parsed.empty() ? "sam3" : "sam3 " + parsed.front()->get_name();
        return report(kWrongUsage, std::string(error.what()) + "; run '" + command + " --help'");
    }
    return run(chosen);
}

}  // namespace

int main(int argc, char** argv) {
    // A closed pipe is then a failed write, which finish_output knows, and not the end of the process.
    std::signal(SIGPIPE, SIG_IGN);
    std::ios::sync_with_stdio(false);
    CLI::App program("Segment Anything in C++: images in, instances out.", "sam3");
    program.set_version_flag("--version", std::string("sam3 ") + sam3_version());
    program.set_help_flag("-h,--help", "Print this help");
    program.require_subcommand(1);
    program.footer(
        "Run 'sam3 COMMAND --help' for the options and examples of a command.\n"
        "Exit codes: 0 done, 1 failed, 2 wrong usage.");
    sam3::cli::Action chosen;
    for (const auto add : kCommands) add(program, chosen);
    return parse_and_run(program, chosen, argc, argv);
}
