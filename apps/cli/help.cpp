#include "command.h"
#include "help_pages.h"
#include "values.h"

#include <iostream>

namespace sam3::cli {

namespace {

const CLI::App& find_command(const CLI::App& program, const std::vector<std::string>& words) {
    const CLI::App* app = &program;
    for (const std::string& word : words) {
        const auto found = app->get_subcommands([&](const CLI::App* child) { return child->get_name() == word; });
        if (found.empty())
            throw UsageError("there is no command '" + printable(word) + "'; run 'sam3 --help' for the list");
        app = found.front();
    }
    return *app;
}

}  // namespace

void add_help(CLI::App& program, Action& chosen) {
    struct Options {
        std::vector<std::string> words;
        bool man = false, markdown = false;
    };
    auto options = std::make_shared<Options>();
    CLI::App* command = program.add_subcommand("help", "Print the help of a command, or the whole manual");
    command->add_option("COMMAND", options->words, "Command to explain");
    command->add_flag("--man", options->man, "Print the manual for man(1)");
    command->add_flag("--markdown", options->markdown, "Print every command and option as Markdown");
    command->footer(
        "Examples:\n"
        "  sam3 help segment\n"
        "  sam3 help --man | man -l -");
    command->callback([options, &program, &chosen] {
        chosen = [options, &program] {
            if (options->man)
                std::cout << to_man_page(option_table(program));
            else if (options->markdown)
                std::cout << to_markdown(option_table(program));
            else
                std::cout << find_command(program, options->words).help();
        };
    });
}

void add_completion(CLI::App& program, Action& chosen) {
    auto shell = std::make_shared<std::string>();
    CLI::App* command = program.add_subcommand("completion", "Print a script that completes commands and options");
    command->add_option("SHELL", *shell, "bash, zsh or fish")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
    command->footer(
        "Examples:\n"
        "  eval \"$(sam3 completion bash)\"                # in ~/.bashrc\n"
        "  sam3 completion zsh > \"${fpath[1]}/_sam3\"\n"
        "  sam3 completion fish > ~/.config/fish/completions/sam3.fish");
    command->callback([shell, &program, &chosen] {
        chosen = [shell, &program] { std::cout << to_completion(option_table(program), *shell); };
    });
}

}  // namespace sam3::cli
