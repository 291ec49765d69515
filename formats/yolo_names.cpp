#include "formats/json_masks.h"
#include "formats/yolo.h"

#include <algorithm>
#include <charconv>

// The names of classes in a data.yaml. Only what such files use of YAML is read: a list in brackets, a list of dashes,
// or numbers with names.
namespace sam3 {

namespace {

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kBlanks = " \t\r";
    const size_t start = text.find_first_not_of(kBlanks);
    return start == std::string_view::npos ? "" : text.substr(start, text.find_last_not_of(kBlanks) - start + 1);
}

// A name in quotes or without; what follows " #" is a comment.
std::string yaml_scalar(std::string_view text) {
    text = trimmed(text);
    if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
        const Json json = Json::parse(text, nullptr, false);
        if (json.is_string()) return json.get<std::string>();
    }
    if (text.size() >= 2 && text.front() == '\'' && text.back() == '\'') {
        std::string out;
        for (size_t i = 1; i + 1 < text.size(); ++i) {
            out += text[i];
            if (text[i] == '\'' && text[i + 1] == '\'') ++i;  // a quote is doubled
        }
        return out;
    }
    return std::string(trimmed(text.substr(0, text.find(" #"))));
}

// "[a, 'b', \"c\"]"; names with commas only when all are quoted as in JSON.
std::vector<std::string> bracket_list(std::string_view text) {
    std::vector<std::string> names;
    const Json json = Json::parse(text, nullptr, false);
    if (json.is_array() && std::all_of(json.begin(), json.end(), [](const Json& item) { return item.is_string(); }))
        return json.get<std::vector<std::string>>();
    text = text.substr(1, text.size() - 2);
    while (!text.empty()) {
        const size_t comma = std::min(text.find(','), text.size());
        names.push_back(yaml_scalar(text.substr(0, comma)));
        text.remove_prefix(std::min(comma + 1, text.size()));
    }
    return names;
}

// An entry of the block below "names:"; false: the block has ended.
bool add_name(std::string_view line, std::map<int, std::string>& names) {
    const std::string_view entry = trimmed(line);
    if (entry.empty() || entry.front() == '#') return true;
    if (entry.front() == '-') {
        names[static_cast<int>(names.size())] = yaml_scalar(entry.substr(1));
        return true;
    }
    int number = 0;
    const auto [stop, error] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
    const size_t colon = entry.find(':');
    if (line.front() != ' ' || error != std::errc() || number < 0 || colon == std::string_view::npos) return false;
    names[number] = yaml_scalar(entry.substr(colon + 1));
    return true;
}

}  // namespace

std::map<int, std::string> parse_yolo_names(std::span<const uint8_t> bytes) {
    std::map<int, std::string> names;
    std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    bool inside = false;
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (inside) {
            inside = add_name(line, names);
        } else if (line.starts_with("names:")) {
            const std::string_view rest = trimmed(line.substr(6));
            if (rest.size() >= 2 && rest.front() == '[' && rest.back() == ']') {
                for (const std::string& name : bracket_list(rest)) names[static_cast<int>(names.size())] = name;
            } else {
                inside = true;
            }
        }
    }
    return names;
}

}  // namespace sam3
