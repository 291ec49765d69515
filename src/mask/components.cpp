#include "mask/components.h"

#include "util/error.h"

#include <algorithm>
#include <limits>

namespace sam3 {
namespace {

constexpr float kFilledLogit = 0.1F;
constexpr float kRemovedLogit = -0.1F;

// Provisional labels that turned out to be one region share a root; a root is the smallest label of its set.
class UnionFind {
public:
    int32_t add() {
        parents_.push_back(static_cast<int32_t>(parents_.size()));
        return parents_.back();
    }

    int32_t root(int32_t label) {
        while (parents_[static_cast<size_t>(label)] != label) {
            int32_t& parent = parents_[static_cast<size_t>(label)];
            parent = parents_[static_cast<size_t>(parent)];
            label = parent;
        }
        return label;
    }

    int32_t join(int32_t a, int32_t b) {
        a = root(a);
        b = root(b);
        parents_[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
        return std::min(a, b);
    }

    size_t size() const { return parents_.size(); }

private:
    std::vector<int32_t> parents_{0};
};

// The first pass: a pixel takes the label of a neighbour above or to the left, and joins those that meet in it.
void label_row(const uint8_t* inside, int32_t* labels, int y, int width, Connectivity connectivity, UnionFind& sets) {
    const int32_t* above = y > 0 ? labels - width : labels;
    for (int x = 0; x < width; ++x) {
        labels[x] = 0;
        if (inside[x] == 0) continue;
        int32_t label = x > 0 ? labels[x - 1] : 0;
        const auto meet = [&](int32_t other) {
            if (other != 0) label = label == 0 || label == other ? other : sets.join(label, other);
        };
        if (y > 0) {
            meet(above[x]);
            if (connectivity == Connectivity::eight && above[x] == 0) {  // otherwise they already met above
                if (x > 0) meet(above[x - 1]);
                if (x + 1 < width) meet(above[x + 1]);
            }
        }
        labels[x] = label != 0 ? label : sets.add();
    }
}

void check_map(size_t size, int width, int height) {
    if (width < 0 || height < 0 || size != static_cast<size_t>(width) * static_cast<size_t>(height))
        fail("expected ", width, " x ", height, " values, found ", size);
    if (size > static_cast<size_t>(std::numeric_limits<int32_t>::max()) - 1)
        fail("expected fewer than 2^31 pixels, found ", width, " x ", height);
}

template <typename Inside>
Components label_logits(std::span<const float> logits, int width, int height, Inside inside) {
    check_map(logits.size(), width, height);
    std::vector<uint8_t> bytes(logits.size());
    std::transform(logits.begin(), logits.end(), bytes.begin(),
                   [&](float logit) { return static_cast<uint8_t>(inside(logit)); });
    return label_components(bytes, width, height, Connectivity::eight);
}

void overwrite_small(std::span<float> logits, const Components& components, int64_t max_area, float value) {
    for (size_t i = 0; i < logits.size(); ++i) {
        const int32_t label = components.labels[i];
        if (label != 0 && components.areas[static_cast<size_t>(label)] <= max_area) logits[i] = value;
    }
}

}  // namespace

Components label_components(std::span<const uint8_t> inside, int width, int height, Connectivity connectivity) {
    check_map(inside.size(), width, height);
    Components out{width, height, std::vector<int32_t>(inside.size()), {0}};
    UnionFind sets;
    for (int y = 0; y < height; ++y) {
        const size_t row = static_cast<size_t>(y) * static_cast<size_t>(width);
        label_row(inside.data() + row, out.labels.data() + row, y, width, connectivity, sets);
    }
    std::vector<int32_t> final_labels(sets.size(), 0);
    for (int32_t label = 1; label < static_cast<int32_t>(sets.size()); ++label) {
        const int32_t root = sets.root(label);  // roots come first: they are the smallest of their set
        if (root == label) out.areas.push_back(0);
        final_labels[static_cast<size_t>(label)] =
            root == label ? out.count() : final_labels[static_cast<size_t>(root)];
    }
    for (int32_t& label : out.labels) {
        label = final_labels[static_cast<size_t>(label)];
        ++out.areas[static_cast<size_t>(label)];
    }
    return out;
}

Components label_components(const Mask& mask, Connectivity connectivity) {
    check_mask(mask);
    return label_components(mask.data, mask.width, mask.height, connectivity);
}

bool fill_small_holes(Mask& mask, int64_t min_area) {
    check_mask(mask);
    Mask outside(mask.width, mask.height);
    std::transform(mask.data.begin(), mask.data.end(), outside.data.begin(), [](uint8_t v) { return v == 0 ? 1 : 0; });
    const Components holes = label_components(outside);
    bool changed = false;
    for (size_t i = 0; i < mask.data.size(); ++i) {
        const int32_t label = holes.labels[i];
        if (label == 0 || holes.areas[static_cast<size_t>(label)] >= min_area) continue;
        mask.data[i] = 1;
        changed = true;
    }
    return changed;
}

bool remove_small_islands(Mask& mask, int64_t min_area) {
    const Components islands = label_components(mask);
    if (islands.count() == 0) return false;
    const auto largest = std::max_element(islands.areas.begin() + 1, islands.areas.end());
    if (*std::min_element(islands.areas.begin() + 1, islands.areas.end()) >= min_area) return false;
    const bool keep_one = *largest < min_area;
    const auto kept = static_cast<int32_t>(largest - islands.areas.begin());
    for (size_t i = 0; i < mask.data.size(); ++i) {
        const int32_t label = islands.labels[i];
        const bool stays = keep_one ? label == kept : islands.areas[static_cast<size_t>(label)] >= min_area;
        mask.data[i] = label != 0 && stays ? 1 : 0;
    }
    return true;
}

void fill_holes_in_logits(std::span<float> logits, int width, int height, int64_t max_area) {
    if (max_area <= 0) return;
    const Components holes = label_logits(logits, width, height, [](float logit) { return logit <= 0.0F; });
    overwrite_small(logits, holes, max_area, kFilledLogit);
}

void remove_sprinkles_in_logits(std::span<float> logits, int width, int height, int64_t max_area) {
    if (max_area <= 0) return;
    const Components islands = label_logits(logits, width, height, [](float logit) { return logit > 0.0F; });
    const int64_t foreground = static_cast<int64_t>(logits.size()) - islands.areas[0];
    overwrite_small(logits, islands, std::min(max_area, foreground / 2), kRemovedLogit);
}

}  // namespace sam3
