#include "option_table.h"

#include "formats/result_formats.h"

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
    if (option.get_name() == "--format" && row.choices.empty())
        for (const FormatInfo& info : result_formats())
            if (info.writes()) row.choices.emplace_back(info.name);
    row.description = option.get_description();
    row.initial = option.get_default_str();
    row.variable = option.get_envname();
    row.group = option.get_group();
    row.required = option.get_required();
    row.several = option.get_expected_max() > 1;
    return row;
}

void add_rows(const CLI::App& app, const std::string& name, std::vector<CommandRow>& rows) {
    CommandRow row{name, app.get_description(), app.get_footer(), {}, {}};
    for (const CLI::Option* option : app.get_options()) row.options.push_back(row_of(*option));
    const auto children = app.get_subcommands([](const CLI::App* child) { return !child->get_group().empty(); });
    for (const CLI::App* child : children) row.subcommands.push_back(child->get_name());
    rows.push_back(std::move(row));
    for (const CLI::App* child : children)
        add_rows(*child, name.empty() ? child->get_name() : name + " " + child->get_name(), rows);
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
    return value.empty() ? text : text + " " + value;
}

std::vector<CommandRow> option_table(const CLI::App& program) {
    std::vector<CommandRow> rows;
    add_rows(program, "", rows);
    return rows;
}

}  // namespace sam3::cli
