#pragma once

#include "runtime/cuda/kernels.h"

namespace sam3::cuda {

// Weights on the GPU: [out, in] in the type of the products, with the bias in either type of result.
struct CudaLinear : PackedLinear {
    Tensor weight;
    Tensor bias, bias_bf16;

    const void* bias_for(DType type) const {
        return !bias ? nullptr : type == DType::bf16 ? bias_bf16.raw() : bias.raw();
    }
};

// A convolution as rows of [kh, kw, in] for each output channel; grouped ones as [kh, kw, in / groups, out] in f32.
struct CudaConv2d : PackedConv2d {
    CudaLinear rows;
    Tensor taps, bias;
};

// [rows, columns] host f32 matrices, one below the other, on the GPU in this type.
Tensor upload_rows(CudaDevice& device, const std::vector<Tensor>& parts, DType type);

// out = activation(out) + residual, in place; residual may be undefined. Both [rows, C] with uniform rows.
void finish_rows(const ExecContext& context, const Tensor& out, Activation activation, const Tensor& residual);

// The product of x [rows, in] with weights, bias included; relu fused. out and residual have one type.
void multiply_rows(const ExecContext& context, const Tensor& x, const CudaLinear& weights, bool relu,
                   const Tensor& residual, const Tensor& out);

}  // namespace sam3::cuda
