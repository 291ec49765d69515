#pragma once

#include "runtime/cpu/gemm.h"

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

// `rows` holds the weights of each column, `stride` apart: PyTorch's [out, in].
std::unique_ptr<PackedWeights> pack_weights(Device& device, const float* rows, int64_t stride, int64_t columns,
                                            int64_t depth, Precision precision);

struct CpuPackedLinear final : PackedLinear {
    std::unique_ptr<PackedWeights> weights;
    Tensor bias;  // [out_features] or undefined

    const float* bias_data() const { return bias ? bias.data<float>() : nullptr; }
};

const CpuPackedLinear& cpu_weights(const PackedLinear& weights);

}  // namespace sam3::cpu
