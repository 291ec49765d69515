#include "weights/hashed_names.h"

#include "util/sha1.h"

#include <charconv>

namespace sam3 {

namespace {

int to_number(std::string_view text) {
    int number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

// What the inside of a pair of brackets stands for: "a,b" or "0-63".
std::vector<std::string> choices_of(std::string_view inside) {
    std::vector<std::string> choices;
    const size_t dash = inside.find('-');
    if (dash != inside.npos) {
        for (int i = to_number(inside.substr(0, dash)); i <= to_number(inside.substr(dash + 1)); ++i)
            choices.push_back(std::to_string(i));
        return choices;
    }
    for (size_t begin = 0; begin <= inside.size();) {
        const size_t end = std::min(inside.find(',', begin), inside.size());
        choices.emplace_back(inside.substr(begin, end - begin));
        begin = end + 1;
    }
    return choices;
}

}  // namespace

std::vector<std::string> expand_template(std::string_view text) {
    const size_t open = text.find('{');
    if (open == text.npos) return {std::string(text)};
    const size_t close = text.find('}', open);
    const std::vector<std::string> endings = expand_template(text.substr(close + 1));
    std::vector<std::string> names;
    for (const std::string& choice : choices_of(text.substr(open + 1, close - open - 1)))
        for (const std::string& ending : endings) names.push_back(std::string(text.substr(0, open)) + choice + ending);
    return names;
}

std::string HashedNames::hash(std::string_view name) { return "t_" + sha1_hex(name).substr(0, 12); }

HashedNames::HashedNames(const std::vector<std::string_view>& templates) {
    for (std::string_view text : templates)
        for (std::string& name : expand_template(text)) names_.emplace(hash(name), std::move(name));
}

std::optional<std::string_view> HashedNames::find(std::string_view hashed) const {
    const auto found = names_.find(std::string(hashed));
    if (found == names_.end()) return std::nullopt;
    return found->second;
}

}  // namespace sam3
