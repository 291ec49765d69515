#include "media/image_names.h"

#include "util/error.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace sam3 {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes the run of digits at the start of `text`, without its leading zeros.
std::string_view take_number(std::string_view& text) {
    const size_t length = std::min(text.size(), text.find_first_not_of("0123456789"));
    std::string_view digits = text.substr(0, length);
    text.remove_prefix(length);
    digits.remove_prefix(std::min(digits.size(), digits.find_first_not_of('0')));
    return digits;
}

// Calls `visit` with every entry that is no folder.
template <typename Iterator, typename Visit>
void walk(const std::string& folder, const Visit& visit) {
    std::error_code error;
    const auto options = std::filesystem::directory_options::skip_permission_denied;
    for (Iterator entry(folder, options, error), end; !error && entry != end; entry.increment(error)) {
        std::error_code ignored;
        if (!entry->is_directory(ignored)) visit(entry->path());
    }
    if (error) fail(folder, ": the folder cannot be read (", error.message(), ")");
}

}  // namespace

bool natural_less(const std::string& first, const std::string& second) {
    std::string_view a = first, b = second;
    while (!a.empty() && !b.empty()) {
        if (is_digit(a.front()) && is_digit(b.front())) {
            const std::string_view m = take_number(a), n = take_number(b);
            if (m.size() != n.size()) return m.size() < n.size();
            if (m != n) return m < n;
            continue;
        }
        if (a.front() != b.front()) return static_cast<uint8_t>(a.front()) < static_cast<uint8_t>(b.front());
        a.remove_prefix(1);
        b.remove_prefix(1);
    }
    return a.empty() == b.empty() ? first < second : a.empty();
}

bool is_image_name(const std::string& path) {
    const std::filesystem::path name = std::filesystem::path(path).filename();
    std::string ending = name.extension().string();
    std::transform(ending.begin(), ending.end(), ending.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return !name.empty() && name.string().front() != '.' &&
           (ending == ".jpg" || ending == ".jpeg" || ending == ".png" || ending == ".webp");
}

std::vector<std::string> image_names(const std::string& folder, bool recursive) {
    std::vector<std::string> names;
    size_t others = 0;
    const auto visit = [&](const std::filesystem::path& path) {
        if (is_image_name(path.string()))
            names.push_back(path.lexically_relative(folder).string());
        else
            ++others;
    };
    if (recursive)
        walk<std::filesystem::recursive_directory_iterator>(folder, visit);
    else
        walk<std::filesystem::directory_iterator>(folder, visit);
    if (names.empty())
        fail(folder, ": expected a folder of .jpg, .png or .webp images, found ",
             others == 0 ? "an empty one" : str("none among ", others, " entries"));
    std::sort(names.begin(), names.end(), natural_less);
    return names;
}

}  // namespace sam3
