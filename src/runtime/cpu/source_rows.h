#pragma once

#include "runtime/layer_weights.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sam3::cpu {

// The rows of one or several weight matrices below each other, where they lie: nothing is copied until it is packed.
class SourceRows {
public:
    struct Row {
        const void* values;  // f32, or int8_t when coded
        bool coded;
        float scale;     // of codes
        size_t matrix;   // which of them
        int64_t stride;  // to the next row of that matrix, in elements
    };

    // Each [rows, depth] with the last dimension contiguous; their memory must outlive this object. Fails with a
    // sentence when they are no such matrices.
    explicit SourceRows(std::span<const LayerWeights> matrices);

    int64_t count() const { return static_cast<int64_t>(rows_.size()); }
    int64_t depth() const { return depth_; }
    const Row& operator[](int64_t index) const { return rows_[static_cast<size_t>(index)]; }

    bool in_one_matrix(int64_t first, int64_t last) const { return (*this)[first].matrix == (*this)[last].matrix; }
    // One row as f32; decoded into `scratch` (of `depth` floats) when it is coded.
    const float* floats(int64_t index, float* scratch) const;

private:
    std::vector<Row> rows_;
    int64_t depth_ = 0;
};

}  // namespace sam3::cpu
