#include "weights/name_map.h"

#include "util/error.h"
#include "weights/hashed_names.h"
#include "weights/quote_name.h"

#include <charconv>

namespace sam3 {

namespace {

bool match_rest(std::string_view pattern, std::string_view name, std::vector<std::string_view>& captures) {
    const size_t literal = std::min(pattern.find('*'), pattern.size());
    if (name.substr(0, literal) != pattern.substr(0, literal)) return false;
    pattern.remove_prefix(literal);
    name.remove_prefix(literal);
    if (pattern.empty()) return name.empty();

    const bool any_text = pattern.substr(0, 2) == "**";
    pattern.remove_prefix(any_text ? 2 : 1);
    const size_t longest = any_text ? name.size() : std::min(name.find('.'), name.size());
    if (pattern.empty()) {
        if (longest != name.size() || (!any_text && name.empty())) return false;
        captures.push_back(name);
        return true;
    }
    for (size_t length = any_text ? 0 : 1; length <= longest; ++length) {
        const size_t kept = captures.size();
        captures.push_back(name.substr(0, length));
        if (match_rest(pattern, name.substr(length), captures)) return true;
        captures.resize(kept);
    }
    return false;
}

std::optional<int> to_position(std::string_view text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
    return value;
}

}  // namespace

std::optional<std::vector<std::string_view>> match_name(std::string_view pattern, std::string_view name) {
    std::vector<std::string_view> captures;
    if (!match_rest(pattern, name, captures)) return std::nullopt;
    return captures;
}

std::string fill_in(std::string_view replacement, const std::vector<std::string_view>& captures) {
    std::string result;
    for (size_t i = 0; i < replacement.size(); ++i) {
        if (replacement[i] != '$' || i + 1 == replacement.size()) {
            result += replacement[i];
            continue;
        }
        const size_t number = static_cast<size_t>(replacement[++i] - '0');
        if (number < 1 || number > captures.size())
            fail("the name rule ", quote_name(replacement), " has no such wildcard");
        result += captures[number - 1];
    }
    return result;
}

std::vector<MappedName> map_name(const NameMap& map, std::string_view file_name) {
    if (map.hashed != nullptr) file_name = map.hashed->find(file_name).value_or(file_name);
    for (const IgnoreRule& rule : map.ignored)
        if (match_name(rule.pattern, file_name)) return {};

    std::string name(file_name);
    for (const RenameRule& rule : map.renames)
        if (const auto captures = match_name(rule.pattern, name)) name = fill_in(rule.replacement, *captures);

    MappedName mapped;
    for (const LayoutRule& rule : map.layouts)
        if (match_name(rule.pattern, name)) mapped.layout = rule.layout;
    for (const SkipRule& rule : map.skips) {
        if (!match_name(rule.pattern, name)) continue;
        mapped.skip_dim = rule.dim;
        mapped.skip_count = rule.count;
    }
    for (const SplitRule& rule : map.splits) {
        const auto captures = match_name(rule.pattern, name);
        if (!captures) continue;
        std::vector<MappedName> result;
        mapped.parts = static_cast<int>(rule.parts.size());
        for (std::string_view part : rule.parts) {
            mapped.canonical = fill_in(part, *captures);
            result.push_back(mapped);
            ++mapped.part;
        }
        return result;
    }
    mapped.canonical = name;
    for (const StackRule& rule : map.stacks) {
        const auto captures = match_name(rule.pattern, name);
        const std::optional<int> position =
            captures && !captures->empty() ? to_position(captures->front()) : std::nullopt;
        if (!position || *position >= rule.count) continue;
        mapped.canonical = fill_in(rule.replacement, *captures);
        mapped.position = *position;
        mapped.stack_count = rule.count;
        break;
    }
    return {mapped};
}

const NameMap& identity_name_map() {
    static const NameMap map{"the file's own names", nullptr, {}, {}, {}, {}, {}, {}, {}};
    return map;
}

}  // namespace sam3
