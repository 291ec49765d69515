#include "usage_errors.h"

#include "command.h"
#include "model_store.h"
#include "option_table.h"
#include "util/error.h"
#include "weights/edit_distance.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace sam3::cli {

namespace {

// The command whose options were being read: "models pull" of `sam3 models pull --x`.
const CLI::App& last_command(const CLI::App& program) {
    const CLI::App* app = &program;
    while (!app->get_subcommands().empty()) app = app->get_subcommands().back();
    return *app;
}

std::string no_model() {
    constexpr size_t kMost = 3;
    const std::vector<StoredModel> models = stored_models();
    std::string found;
    for (size_t i = 0; i < std::min(models.size(), kMost); ++i)
        found += (i == 0 ? "" : ", ") + printable(models[i].name);
    if (models.size() > kMost) found += ", ...";
    return "no model was given: name one with -m (a file, a folder or a name) or in the variable SAM3_MODEL; " +
           (found.empty() ? "`sam3 models pull facebook/sam3` fetches one"
                          : "found here: " + found + " (`sam3 models list`)");
}

std::string unexpected(const std::string& word, const CLI::App& command) {
    const std::string shown = "'" + printable(word.substr(0, 80)) + "'";
    if (!word.starts_with("-")) return "there is nothing here that takes " + shown;
    std::vector<std::string> names;
    for (const CLI::Option* option : command.get_options())
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    const auto guess = closest_name(std::string_view(word).substr(0, word.find('=')), names);
    return "there is no option " + shown + (guess ? ", did you mean " + *guess + "?" : "");
}

}  // namespace

std::string explain_usage(const CLI::ParseError& error, const CLI::App& program) {
    const CLI::App& command = last_command(program);
    std::string text = error.what();
    // CLI11: "--text: 1 required PHRASE missing"
    if (text.ends_with(" missing") && text.find(": ") != std::string::npos)
        text = text.substr(0, text.find(": ")) + " needs a value";
    const std::vector<std::string> extra = program.remaining(true);  // before what is missing: it may be misspelt
    if (extra.empty() && text == "--model is required") return no_model();
    const std::string name = command_name(command);
    return (extra.empty() ? text : unexpected(extra.front(), command)) + "; run 'sam3 " + name +
           (name.empty() ? "" : " ") + "--help'";
}

}  // namespace sam3::cli
