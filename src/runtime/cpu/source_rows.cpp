#include "runtime/cpu/source_rows.h"

#include "util/error.h"

namespace sam3::cpu {

namespace {

void check(const LayerWeights& weights) {
    const Tensor& values = weights.values;
    const DType expected = weights.coded() ? DType::i8 : DType::f32;
    if (!values || values.rank() != 2 || values.dtype() != expected)
        fail("a layer's weights must be ", name_of(expected), " [out, in]",
             values ? str(", got ", name_of(values.dtype()), " ", to_string(values.shape())) : "");
    if (!weights.coded()) return;
    if (weights.scales.shape() != Shape({values.dim(0)}) || weights.scales.dtype() != DType::f32)
        fail("the scales of codes ", to_string(values.shape()), " must be f32 [", values.dim(0), "], got ",
             to_string(weights.scales.shape()));
}

}  // namespace

SourceRows::SourceRows(std::span<const LayerWeights> matrices) {
    if (matrices.empty()) fail("a layer needs at least one weight matrix");
    const Tensor& front = matrices.front().values;
    for (size_t m = 0; m < matrices.size(); ++m) {
        const LayerWeights& weights = matrices[m];
        check(weights);
        const Tensor& values = weights.values;
        if (values.dim(1) != front.dim(1))
            fail("stacked weights must have one input size, got ", to_string(front.shape()), " and ",
                 to_string(values.shape()));
        const auto* data = static_cast<const uint8_t*>(values.raw());
        const int64_t row_bytes = values.stride(0) * static_cast<int64_t>(size_of(values.dtype()));
        for (int64_t i = 0; i < values.dim(0); ++i) {
            const float scale = weights.coded() ? weights.scales.data<float>()[i] : 1.0F;
            rows_.push_back({data + i * row_bytes, weights.coded(), scale, m, values.stride(0)});
        }
    }
    depth_ = front.dim(1);
}

const float* SourceRows::floats(int64_t index, float* scratch) const {
    const Row& row = (*this)[index];
    if (!row.coded) return static_cast<const float*>(row.values);
    const auto* codes = static_cast<const int8_t*>(row.values);
    for (int64_t i = 0; i < depth_; ++i) scratch[i] = static_cast<float>(codes[i]) * row.scale;
    return scratch;
}

}  // namespace sam3::cpu
