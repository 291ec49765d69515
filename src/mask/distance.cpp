#include "mask/distance.h"

#include <algorithm>

namespace sam3 {

namespace {

// Down each column to its nearest set pixel; `far` where it has none.
std::vector<int64_t> column_distances(const Mask& targets, int64_t far) {
    std::vector<int64_t> out(targets.data.size(), far);
    for (int x = 0; x < targets.width; ++x) {
        int64_t distance = far;
        for (int y = 0; y < targets.height; ++y) {
            distance = targets.at(x, y) != 0 ? 0 : std::min(far, distance + 1);
            out[targets.index(x, y)] = distance;
        }
        for (int y = targets.height - 1; y >= 0; --y) {
            int64_t& here = out[targets.index(x, y)];
            distance = here == 0 ? 0 : std::min(far, distance + 1);
            here = std::min(here, distance);
        }
    }
    return out;
}

// The lower envelope of the parabolas (x - i)^2 + row[i]^2 (Meijster, Roerdink and Hesselink 2000), in place.
class RowEnvelope {
public:
    explicit RowEnvelope(size_t width) : centres_(width), begins_(width), squares_(width) {}

    void apply(int64_t* row) {
        const auto width = static_cast<int64_t>(squares_.size());
        for (int64_t i = 0; i < width; ++i) squares_[static_cast<size_t>(i)] = row[i] * row[i];
        int64_t count = 0;
        for (int64_t i = 0; i < width; ++i) {
            while (count > 0 && value(begins_[at(count)], centres_[at(count)]) > value(begins_[at(count)], i)) --count;
            const int64_t begin = count == 0 ? 0 : 1 + overtakes(centres_[at(count)], i);
            if (begin >= width) continue;
            centres_[static_cast<size_t>(count)] = i;
            begins_[static_cast<size_t>(count)] = begin;
            ++count;
        }
        for (int64_t x = width - 1; x >= 0; --x) {
            row[x] = value(x, centres_[at(count)]);
            if (x == begins_[at(count)]) --count;
        }
    }

private:
    static size_t at(int64_t count) { return static_cast<size_t>(count - 1); }
    int64_t value(int64_t x, int64_t centre) const {
        return (x - centre) * (x - centre) + squares_[static_cast<size_t>(centre)];
    }
    // The last x where the parabola around a is not above that around b, for a < b where there is one.
    int64_t overtakes(int64_t a, int64_t b) const {
        const int64_t rise = b * b - a * a + squares_[static_cast<size_t>(b)] - squares_[static_cast<size_t>(a)];
        return rise / (2 * (b - a));
    }

    std::vector<int64_t> centres_, begins_, squares_;
};

}  // namespace

std::vector<int64_t> squared_distances(const Mask& targets) {
    check_mask(targets);
    std::vector<int64_t> out = column_distances(targets, int64_t{targets.width} + targets.height);
    if (out.empty()) return out;
    RowEnvelope envelope(static_cast<size_t>(targets.width));
    for (int y = 0; y < targets.height; ++y) envelope.apply(out.data() + targets.index(0, y));
    return out;
}

std::optional<InnerCircle> largest_inner_circle(const Mask& mask) {
    check_mask(mask);
    Mask outside(mask.width + 2, mask.height + 2);
    std::fill(outside.data.begin(), outside.data.end(), uint8_t{1});
    for (int y = 0; y < mask.height; ++y)
        for (int x = 0; x < mask.width; ++x) outside.at(x + 1, y + 1) = mask.at(x, y) == 0;
    const std::vector<int64_t> distances = squared_distances(outside);
    const auto deepest = std::max_element(distances.begin(), distances.end());
    if (*deepest == 0) return std::nullopt;
    const auto place = static_cast<int>(deepest - distances.begin());
    return InnerCircle{place % outside.width - 1, place / outside.width - 1, *deepest};
}

}  // namespace sam3
