#include "option_table.h"

namespace sam3::cli {

namespace {

// "TEXT:{official,hf}" -> "TEXT" and its choices; "FLOAT:FLOAT in [0 - 1]" -> "FLOAT".
void read_type(const std::string& text, OptionRow& row) {
    const size_t colon = text.find(':');
    row.value = text.substr(0, colon);
    const size_t open = text.find('{'), close = text.rfind('}');
    if (open == std::string::npos || close == std::string::npos || close < open) return;
    std::string list = text.substr(open + 1, close - open - 1);
    for (size_t comma = 0; !list.empty(); list = comma == std::string::npos ? "" : list.substr(comma + 1)) {
        comma = list.find(',');
        row.choices.push_back(list.substr(0, comma));
    }
}

OptionRow row_of(const CLI::Option& option) {
    OptionRow row;
    row.shorts = option.get_snames();
    row.longs = option.get_lnames();
    if (option.get_positional()) row.positional = option.get_name(true, false);
    if (option.get_expected_max() > 0) read_type(option.get_type_name(), row);
    row.description = option.get_description();
    row.initial = option.get_default_str();
    row.variable = option.get_envname();
    row.group = option.get_group();
    row.required = option.get_required();
    row.several = option.get_expected_max() > 1;
    return row;
}

void add_rows(const CLI::App& app, std::vector<CommandRow>& rows) {
    CommandRow row{command_name(app), app.get_description(), app.get_footer(), app.get_group(), {}, {}};
    for (const CLI::Option* option : app.get_options()) row.options.push_back(row_of(*option));
    const auto children = app.get_subcommands([](const CLI::App* child) { return !child->get_group().empty(); });
    for (const CLI::App* child : children) row.subcommands.push_back(child->get_name());
    rows.push_back(std::move(row));
    for (const CLI::App* child : children) add_rows(*child, rows);
}

}  // namespace

std::vector<std::string> OptionRow::words() const {
    std::vector<std::string> words;
    for (const std::string& name : shorts) words.push_back("-" + name);
    for (const std::string& name : longs) words.push_back("--" + name);
    return words;
}

std::string OptionRow::usage() const {
    std::string text;
    for (const std::string& word : words()) text += (text.empty() ? "" : ", ") + word;
    if (text.empty()) return positional;
    if (!positional.empty()) return text + " " + positional;
    return value.empty() ? text : text + " " + value;
}

std::string OptionRow::details() const {
    std::string text = description;
    if (!initial.empty() && !flag()) text += " (default: " + initial + ")";
    if (!choices.empty() && choices.size() < 6 && text.find(choices.front()) == std::string::npos)
        for (size_t i = 0; i < choices.size(); ++i) text += (i == 0 ? ": " : ", ") + choices[i];
    if (!variable.empty()) text += "; also from $" + variable;
    if (required) text += "; required";
    return text;
}

std::string command_name(const CLI::App& app) {
    if (app.get_parent() == nullptr) return "";
    const std::string above = command_name(*app.get_parent());
    return above.empty() ? app.get_name() : above + " " + app.get_name();
}

std::vector<CommandRow> option_table(const CLI::App& program) {
    std::vector<CommandRow> rows;
    add_rows(program, rows);
    return rows;
}

}  // namespace sam3::cli
