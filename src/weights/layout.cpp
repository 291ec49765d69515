#include "weights/layout.h"

#include <array>
#include <string>

namespace sam3 {

namespace {

// The letters of `canonical` alone: in which order the stored dimensions come.
std::string order_of(const Layout& layout) {
    std::string letters;
    for (char c : layout.canonical)
        if (c >= 'a' && c <= 'z') letters += c;
    return letters;
}

}  // namespace

std::optional<Shape> canonical_shape(const Layout& layout, const Shape& stored) {
    if (static_cast<size_t>(stored.rank()) != layout.stored.size()) return std::nullopt;
    Shape shape;
    bool is_joined = false;
    for (char c : layout.canonical) {
        if (c == ')') {
            is_joined = false;
        } else if (c == '(') {
            is_joined = true;
            shape.push_back(1);
        } else if (c == '1') {
            shape.push_back(1);
        } else {
            const int64_t size = stored[static_cast<int>(layout.stored.find(c))];
            if (is_joined)
                shape[-1] *= size;
            else
                shape.push_back(size);
        }
    }
    return shape;
}

bool keeps_order(const Layout& layout) { return order_of(layout) == layout.stored; }

void reorder(const Layout& layout, const float* source, const Shape& stored, float* destination) {
    const int rank = stored.rank();
    std::array<int64_t, Shape::kMaxRank> strides{}, sizes{}, index{};
    const std::string order = order_of(layout);
    for (int i = 0; i < rank; ++i) {
        const auto from = static_cast<int>(layout.stored.find(order[static_cast<size_t>(i)]));
        int64_t stride = 1;
        for (int d = from + 1; d < rank; ++d) stride *= stored[d];
        strides[static_cast<size_t>(i)] = stride;
        sizes[static_cast<size_t>(i)] = stored[from];
    }
    int64_t at = 0;
    for (int64_t i = 0; i < stored.numel(); ++i) {
        destination[i] = source[at];
        for (auto d = static_cast<size_t>(rank); d-- > 0;) {  // the next index, as an odometer turns
            at += strides[d];
            if (++index[d] < sizes[d]) break;
            at -= strides[d] * sizes[d];
            index[d] = 0;
        }
    }
}

}  // namespace sam3
