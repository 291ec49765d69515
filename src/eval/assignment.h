#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace sam3 {

// Pairs rows with columns one to one so that the values of the pairs, none of them negative, have the greatest sum.
// `values` holds rows * columns of them, row by row. Gives for each row its column, or -1: the smaller side is paired
// completely, also where the value is 0.
std::vector<int> assign(std::span<const double> values, size_t rows, size_t columns);

}  // namespace sam3
