#pragma once

#include "runtime/shape.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace sam3 {

// The common shape of N tensors with dimensions merged wherever every tensor allows it: dense tensors become one
// dimension, a bias for every row becomes two.
template <size_t N>
struct MergedStrides {
    int rank = 1;
    std::array<int64_t, Shape::kMaxRank> dims{1};  // outermost first
    std::array<std::array<int64_t, Shape::kMaxRank>, N> strides{};
    int64_t total = 1;

    MergedStrides(const Shape& shape, const std::array<Shape, N>& tensor_strides) : total(shape.numel()) {
        int at = Shape::kMaxRank;  // filled from the back, innermost first
        for (int i = shape.rank() - 1; i >= 0; --i) {
            if (shape[i] == 1) continue;
            bool merge = at < Shape::kMaxRank;
            for (size_t t = 0; t < N && merge; ++t) merge = tensor_strides[t][i] == strides[t][at] * dims[at];
            if (merge) {
                dims[at] *= shape[i];
                continue;
            }
            dims[--at] = shape[i];
            for (size_t t = 0; t < N; ++t) strides[t][at] = tensor_strides[t][i];
        }
        if (at == Shape::kMaxRank) {  // a single element
            dims[0] = 1;
            for (size_t t = 0; t < N; ++t) strides[t][0] = 1;
            return;
        }
        rank = Shape::kMaxRank - at;
        std::copy(dims.begin() + at, dims.end(), dims.begin());
        for (auto& s : strides) std::copy(s.begin() + at, s.end(), s.begin());
    }

    int64_t inner_size() const { return dims[rank - 1]; }
    int64_t inner_stride(size_t tensor) const { return strides[tensor][rank - 1]; }
};

}  // namespace sam3
