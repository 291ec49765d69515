#include "help_pages.h"

#include "util/error.h"

#include <sstream>

namespace sam3::cli {

namespace {

std::string joined(const std::vector<std::string>& words, const char* between = " ") {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
    return text;
}

// For single quotes of a shell; brackets and colons mean something to zsh's _arguments.
std::string quoted(const std::string& text, bool for_zsh = false) {
    std::string out;
    for (const char c : text) {
        if (c == '\'')
            out += "'\\''";
        else if (for_zsh && (c == '[' || c == ']' || c == ':'))
            out += std::string("\\") + c;
        else
            out += c;
    }
    return out;
}

// A command is looked up by its words: "models pull".
void write_bash(std::ostream& out, const std::vector<CommandRow>& commands) {
    out << "# bash completion for sam3: eval \"$(sam3 completion bash)\"\n"
           "_sam3_choices() {  # LIST WORD; of \"a,b\" the part after the comma is completed\n"
           "    local front=\n"
           "    case $2 in *,*) front=${2%,*}, ;; esac\n"
           "    COMPREPLY=($(compgen -P \"$front\" -W \"$1\" -- \"${2##*,}\"))\n"
           "}\n"
           "_sam3() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} "
           "words=\n"
           "    [ \"$COMP_CWORD\" -gt 1 ] || command=\n"
           "    [ \"$command\" = models ] && [ \"$COMP_CWORD\" -gt 2 ] && command=\"models ${COMP_WORDS[2]}\"\n"
           "    case $before in\n"
           "        -m|--model) COMPREPLY=($(compgen -W \"$(sam3 models list 2>/dev/null | awk '{print $1}')\" -- "
           "\"$word\")); "
           "return ;;\n"
           "    esac\n"
           "    case \"$command:$before\" in\n";
    for (const CommandRow& command : commands)
        for (const OptionRow& option : command.options)
            if (!option.choices.empty())
                for (const std::string& word : option.words())
                    out << "        '" << command.name << ":" << word << "') _sam3_choices '" << joined(option.choices)
                        << "' \"$word\"; return ;;\n";
    out << "    esac\n"
           "    case $command in\n";
    for (const CommandRow& command : commands) {
        std::vector<std::string> words = command.subcommands;
        for (const OptionRow& option : command.options)
            for (const std::string& name : option.words()) words.push_back(name);
        out << "        '" << command.name << "') words='" << joined(words) << "' ;;\n";
    }
    out << "    esac\n"
           "    if [ -z \"$command\" ] || [ \"$command\" = models ] || [ \"${word:0:1}\" = - ]; then\n"
           "        COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
           "    fi\n"
           "}\n"
           "complete -o default -F _sam3 sam3\n";
}

void write_zsh_options(std::ostream& out, const CommandRow& command) {
    for (const OptionRow& option : command.options) {
        const std::string action = option.choices.empty() ? "_files" : "(" + joined(option.choices) + ")";
        for (const std::string& word : option.words()) {
            out << " \\\n            '" << (option.several ? "*" : "") << word << "["
                << quoted(option.description, true) << "]";
            if (!option.flag()) out << ":" << quoted(option.value, true) << ":" << action;
            out << "'";
        }
    }
    out << " \\\n            '*:file:_files'\n";
}

void write_zsh(std::ostream& out, const std::vector<CommandRow>& commands) {
    out << "#compdef sam3\n# zsh completion for sam3: sam3 completion zsh > ${fpath[1]}/_sam3\n"
           "_sam3() {\n"
           "    local command=$words[2]\n"
           "    [[ $command = models && $CURRENT -gt 3 ]] && command=\"models $words[3]\"\n"
           "    if (( CURRENT == 2 )); then\n        local -a list=(";
    for (const CommandRow& command : commands)
        if (!command.name.empty() && command.name.find(' ') == std::string::npos)
            out << " '" << command.name << ":" << quoted(command.description, true) << "'";
    out << " )\n        _describe command list\n        return\n    fi\n    case $command in\n";
    for (const CommandRow& command : commands) {
        if (command.name.empty()) continue;
        if (!command.subcommands.empty()) {
            out << "        '" << command.name << "') _values command " << joined(command.subcommands) << " ;;\n";
            continue;
        }
        out << "        '" << command.name << "') _arguments";
        write_zsh_options(out, command);
        out << "            ;;\n";
    }
    out << "    esac\n}\n_sam3 \"$@\"\n";
}

std::string fish_condition(const std::string& command) {
    const size_t space = command.find(' ');
    if (space == std::string::npos) return "__fish_seen_subcommand_from " + command;
    return "__fish_seen_subcommand_from " + command.substr(0, space) + "; and __fish_seen_subcommand_from " +
           command.substr(space + 1);
}

void write_fish(std::ostream& out, const std::vector<CommandRow>& commands) {
    out << "# fish completion for sam3: sam3 completion fish > ~/.config/fish/completions/sam3.fish\n";
    for (const CommandRow& command : commands) {
        for (const std::string& child : command.subcommands)
            out << "complete -c sam3 -f -n '"
                << (command.name.empty() ? "__fish_use_subcommand" : fish_condition(command.name)) << "' -a " << child
                << "\n";
        if (command.name.empty()) continue;
        for (const OptionRow& option : command.options) {
            if (option.words().empty()) continue;
            out << "complete -c sam3 -n '" << fish_condition(command.name) << "'";
            for (const std::string& name : option.shorts) out << " -s " << name;
            for (const std::string& name : option.longs) out << " -l " << name;
            if (!option.flag()) out << " -r";
            if (!option.choices.empty()) out << " -f -a '" << joined(option.choices) << "'";
            out << " -d '" << quoted(option.description) << "'\n";
        }
    }
}

}  // namespace

std::string to_completion(const std::vector<CommandRow>& commands, const std::string& shell) {
    std::ostringstream out;
    if (shell == "bash")
        write_bash(out, commands);
    else if (shell == "zsh")
        write_zsh(out, commands);
    else if (shell == "fish")
        write_fish(out, commands);
    else
        fail("there is no completion for '", shell, "': bash, zsh and fish are known");
    return out.str();
}

}  // namespace sam3::cli
