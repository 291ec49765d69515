#pragma once

#include "runtime/shape.h"

#include <optional>
#include <string_view>

namespace sam3 {

// How a tensor of a file must be turned to become the canonical one, as letters for its dimensions: "ohwi" -> "oihw" is
// a convolution stored channels last, "ab" -> "ba" a matrix stored the other way round. In `canonical` brackets join
// dimensions and 1 is a new one: "hwc" -> "1(hw)c".
struct Layout {
    std::string_view stored;
    std::string_view canonical;
};

// Empty when the shape does not have the dimensions of `stored`.
std::optional<Shape> canonical_shape(const Layout& layout, const Shape& stored);
// Whether the values need no moving: only the shape changes.
bool keeps_order(const Layout& layout);
// Moves the values of a tensor of shape `stored` into canonical order.
void reorder(const Layout& layout, const float* source, const Shape& stored, float* destination);

}  // namespace sam3
