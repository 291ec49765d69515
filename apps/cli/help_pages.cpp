#include "help_pages.h"

#include "sam3.h"

#include <sstream>

namespace sam3::cli {

namespace {

// What roff would take for its own.
std::string escape_roff(const std::string& text) {
    std::string out;
    bool start = true;
    for (const char c : text) {
        if (c == '\\')
            out += "\\e";
        else if (c == '-')
            out += "\\-";
        else if (start && (c == '.' || c == '\''))
            out += std::string("\\&") + c;
        else
            out += c;
        start = c == '\n';
    }
    return out;
}

void write_roff_options(std::ostream& out, const CommandRow& command) {
    for (const OptionRow& option : command.options)
        out << ".TP\n.B " << escape_roff(option.usage()) << "\n" << escape_roff(option.details()) << "\n";
}

void write_markdown_text(std::ostream& out, const std::string& text) {
    for (const char c : text) {
        if (c == '|' || c == '<' || c == '*') out << '\\';
        out << c;
    }
}

}  // namespace

std::string to_man_page(const std::vector<CommandRow>& commands) {
    std::ostringstream out;
    const CommandRow& program = commands.front();
    out << ".TH SAM3 1 \"\" \"sam3 " << sam3_version() << "\" \"User Commands\"\n"
        << ".SH NAME\nsam3 \\- segment anything in images and videos\n"
        << ".SH SYNOPSIS\n.B sam3\n.I COMMAND\n[\\fIOPTION\\fR]... [\\fIINPUT\\fR]...\n"
        << ".SH DESCRIPTION\n"
        << escape_roff(program.description) << "\n"
        << ".SH OPTIONS\n";
    write_roff_options(out, program);
    for (size_t i = 1; i < commands.size(); ++i) {
        const CommandRow& command = commands[i];
        if (!command.subcommands.empty()) continue;  // its own commands follow
        out << ".SH \"SAM3 " << escape_roff(command.name) << "\"\n" << escape_roff(command.description) << ".\n";
        write_roff_options(out, command);
        if (!command.footer.empty()) out << ".PP\n.nf\n" << escape_roff(command.footer) << "\n.fi\n";
    }
    out << ".SH EXIT STATUS\n0 done, 1 failed, 2 wrong usage.\n"
        << ".SH ENVIRONMENT\n"
        << ".TP\n.B SAM3_MODEL\nThe model, where \\-\\-model is not given.\n"
        << ".TP\n.B SAM3_MODELS\nFolders with models that can be given by name, separated by colons.\n"
        << ".TP\n.B HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_TOKEN\nAs Hugging Face's own tools use them.\n"
        << ".TP\n.B NO_COLOR\nNo colours.\n"
        << ".TP\n.B OMP_WAIT_POLICY\nSet to \"passive\" where other programs share the CPU.\n";
    return out.str();
}

std::string to_markdown(const std::vector<CommandRow>& commands) {
    std::ostringstream out;
    for (const CommandRow& command : commands) {
        if (command.name.empty() || !command.subcommands.empty()) continue;
        out << "### sam3 " << command.name << "\n\n" << command.description << ".\n\n| option | |\n|---|---|\n";
        for (const OptionRow& option : command.options) {
            if (option.longs == std::vector<std::string>{"help"}) continue;
            out << "| `" << option.usage() << "` | ";
            write_markdown_text(out, option.details());
            out << " |\n";
        }
        std::istringstream footer(command.footer);
        bool example = false;
        out << "\n";
        for (std::string line; std::getline(footer, line);) {
            if (line == "Examples:") continue;
            const bool now = line.starts_with("  ");
            if (example != now) out << "\n";
            example = now;
            out << (now ? "  " : "") << line << "\n";
        }
        out << "\n";
    }
    return out.str();
}

}  // namespace sam3::cli
