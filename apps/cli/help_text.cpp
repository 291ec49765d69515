#include "help_text.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

namespace sam3::cli {

namespace {

constexpr size_t kIndent = 2, kColumn = 26;

// "a b c" in lines of at most `width` characters; those after the first are indented.
std::string wrapped(const std::string& text, size_t width, size_t indent) {
    std::istringstream words(text);
    std::string out;
    size_t column = indent;
    for (std::string word; words >> word;) {
        if (out.empty()) {
            out = word;
        } else if (column + 1 + word.size() > width) {
            out += "\n" + std::string(indent, ' ') + word;
            column = indent;
        } else {
            out += " " + word;
            ++column;
        }
        column += word.size();
    }
    return out;
}

void write_row(std::ostream& out, const std::string& name, const std::string& text, size_t width) {
    out << std::string(kIndent, ' ') << name;
    const size_t used = kIndent + name.size();
    out << (used + 2 > kColumn ? "\n" + std::string(kColumn, ' ') : std::string(kColumn - used, ' '));
    out << wrapped(text, width, kColumn) << "\n";
}

// The headings in the order of their first row; what has none of its own comes last.
template <typename Row>
std::vector<std::string> groups_of(const std::vector<Row>& rows) {
    std::vector<std::string> groups;
    for (const Row& row : rows)
        if (std::find(groups.begin(), groups.end(), row.group) == groups.end()) groups.push_back(row.group);
    std::stable_partition(groups.begin(), groups.end(), [](const std::string& group) { return group != "Options"; });
    return groups;
}

std::string usage_of(const CommandRow& command) {
    std::string text = "sam3" + (command.name.empty() ? "" : " " + command.name);
    if (!command.subcommands.empty()) return text + " COMMAND [OPTION...]";
    text += " [OPTION...]";
    for (const OptionRow& option : command.options) {
        if (option.positional.empty()) continue;
        const std::string name = option.positional + (option.several ? "..." : "");
        text += option.required ? " " + name : " [" + name + "]";
    }
    return text;
}

void write_options(std::ostream& out, const CommandRow& command, size_t width) {
    std::vector<OptionRow> options = command.options;
    for (OptionRow& option : options)
        if (option.words().empty()) option.group = "Arguments";
    for (const std::string& group : groups_of(options)) {
        out << "\n" << group << ":\n";
        for (const OptionRow& option : options)
            if (option.group == group) write_row(out, option.usage(), option.details(), width);
    }
}

// Examples stay as they are: they are there to be copied.
void write_footer(std::ostream& out, const std::string& footer, size_t width) {
    std::istringstream lines(footer);
    std::string prose;
    const auto flush = [&] {
        if (!prose.empty()) out << wrapped(prose, width, 0) << "\n";
        prose.clear();
    };
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("  ") && line != "Examples:") {
            prose += " " + line;
            continue;
        }
        flush();
        out << line << "\n";
    }
    flush();
}

void write_commands(std::ostream& out, const CommandRow& command, const std::vector<CommandRow>& commands,
                    size_t width) {
    std::vector<CommandRow> children;
    for (const CommandRow& row : commands)
        for (const std::string& child : command.subcommands)
            if (row.name == (command.name.empty() ? child : command.name + " " + child)) children.push_back(row);
    for (const std::string& group : groups_of(children)) {
        out << "\n" << (group == "Subcommands" ? "Commands" : group) << ":\n";  // CLI11's own word
        for (const CommandRow& child : children)
            if (child.group == group) write_row(out, child.name, child.description, width);
    }
}

}  // namespace

size_t help_width() {
    constexpr size_t kUsual = 100, kLeast = 60;
    winsize size{};
    if (::isatty(STDOUT_FILENO) == 0 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return kUsual;
    return std::clamp(static_cast<size_t>(size.ws_col), kLeast, kUsual);
}

std::string to_help(const std::vector<CommandRow>& commands, const std::string& name, size_t width) {
    const auto command =
        std::find_if(commands.begin(), commands.end(), [&](const CommandRow& row) { return row.name == name; });
    if (command == commands.end()) return "";
    std::ostringstream out;
    out << wrapped(command->description, width, 0) << (command->description.ends_with('.') ? "\n\n" : ".\n\n")
        << "Usage: " << usage_of(*command) << "\n";
    write_commands(out, *command, commands, width);
    write_options(out, *command, width);
    out << "\n";
    write_footer(out, command->footer, width);
    return out.str();
}

}  // namespace sam3::cli
