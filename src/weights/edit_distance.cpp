#include "weights/edit_distance.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace sam3 {

int edit_distance(std::string_view a, std::string_view b, int limit) {
    const int lengths_apart = std::abs(static_cast<int>(a.size()) - static_cast<int>(b.size()));
    if (lengths_apart >= limit) return limit;
    std::vector<int> row(b.size() + 1);
    std::iota(row.begin(), row.end(), 0);
    for (size_t i = 0; i < a.size(); ++i) {
        int diagonal = row[0];
        row[0] = static_cast<int>(i) + 1;
        int smallest = row[0];
        for (size_t j = 0; j < b.size(); ++j) {
            const int replaced = diagonal + (a[i] == b[j] ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
            smallest = std::min(smallest, row[j + 1]);
        }
        if (smallest >= limit) return limit;  // rows only grow
    }
    return std::min(row.back(), limit);
}

std::optional<std::string> closest_name(std::string_view wanted, const std::vector<std::string>& names) {
    constexpr size_t kMaxNames = 20000, kMaxLength = 256;  // keeps a hostile file from costing minutes
    int best = static_cast<int>(wanted.size()) / 3 + 1;
    const std::string* closest = nullptr;
    for (size_t i = 0; i < std::min(names.size(), kMaxNames); ++i) {
        if (names[i].size() > kMaxLength) continue;
        const int distance = edit_distance(wanted, names[i], best);
        if (distance >= best) continue;
        best = distance;
        closest = &names[i];
    }
    return closest != nullptr ? std::optional<std::string>(*closest) : std::nullopt;
}

}  // namespace sam3
