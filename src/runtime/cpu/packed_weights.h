#pragma once

#include "runtime/cpu/gemm.h"
#include "runtime/cpu/source_rows.h"

#include <memory>

// Weights in the form and the precision that a product reads them in. Made once, at load.
namespace sam3::cpu {

class PackedWeights {
public:
    PackedWeights(int64_t columns, int64_t depth) : columns_(columns), depth_(depth) {}
    PackedWeights(const PackedWeights&) = delete;
    PackedWeights& operator=(const PackedWeights&) = delete;
    virtual ~PackedWeights() = default;

    // The product says where rows come from and where the result goes; its right side is these weights.
    virtual void multiply(const ExecContext& context, int64_t rows, GemmProduct product) const = 0;

    int64_t columns() const { return columns_; }
    int64_t depth() const { return depth_; }

private:
    int64_t columns_, depth_;
};

// Each row holds the weights of a column: PyTorch's [out, in]. Codes that were made from int8's own coding of f32
// weights give the same bits as those weights.
std::unique_ptr<PackedWeights> pack_weights(Device& device, const SourceRows& rows, Precision precision);

struct CpuPackedLinear final : PackedLinear {
    std::unique_ptr<PackedWeights> weights;
    Tensor bias;  // [out_features] or undefined

    const float* bias_data() const { return bias ? bias.data<float>() : nullptr; }
};

const CpuPackedLinear& cpu_weights(const PackedLinear& weights);

}  // namespace sam3::cpu
