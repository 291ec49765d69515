#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sam3 {

// Names that a file holds as "t_" and the first 12 digits of their SHA-1. A hash cannot be turned back, so every name
// that may occur is hashed beforehand. Templates describe them: "{a,b}" stands for either text, "{0-63}" for a number.
class HashedNames {
public:
    explicit HashedNames(const std::vector<std::string_view>& templates);

    std::optional<std::string_view> find(std::string_view hashed) const;  // empty: not one of them

    static std::string hash(std::string_view name);

private:
    std::unordered_map<std::string, std::string> names_;
};

// All names that a template describes.
std::vector<std::string> expand_template(std::string_view text);

}  // namespace sam3
