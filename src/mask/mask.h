#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sam3 {

// One byte a pixel, 0 or 1, rows from the top.
struct Mask {
    int width = 0;
    int height = 0;
    std::vector<uint8_t> data;

    Mask() = default;
    Mask(int mask_width, int mask_height)
        : width(mask_width),
          height(mask_height),
          data(static_cast<size_t>(mask_width) * static_cast<size_t>(mask_height), 0) {}

    size_t index(int x, int y) const {
        return static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x);
    }
    uint8_t at(int x, int y) const { return data[index(x, y)]; }
    uint8_t& at(int x, int y) { return data[index(x, y)]; }

    bool operator==(const Mask&) const = default;
};

// Fails with a sentence when a size is negative or the data does not fit it.
void check_mask(const Mask& mask);

int64_t mask_area(const Mask& mask);

}  // namespace sam3
