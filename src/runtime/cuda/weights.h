#pragma once

#include "runtime/cuda/kernels.h"

namespace sam3::cuda {

// Weights on the GPU: [out, in] in the type of the products, with the bias in either type of result. Codes of e4m3 are
// u8 and have scales [out].
struct CudaLinear : PackedLinear {
    Tensor weight, scales;
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

// out = activation(x [rows, in] * weights + bias) + residual, or rotated; out and residual have one type.
void multiply_rows(const ExecContext& context, const Tensor& x, const CudaLinear& weights, Activation activation,
                   const Tensor& residual, const Tensor& out, const RopeArgs& rotation = {});

// The same for weights of [2, 2, C] rows: x [N, H, W, in] becomes out [N, 2H, 2W, C]. False where it cannot do that.
bool multiply_into_pixels(const ExecContext& context, const Tensor& x, const CudaLinear& weights, Activation activation,
                          const Tensor& out);

// codes.cu: rows of f32 or bf16 as codes of e4m3, and what to multiply those with; and for which sizes.
bool codes_take(int64_t in, int64_t out);
void code_rows(const ExecContext& context, const Tensor& x, const Tensor& codes, const Tensor& scales);

// linear_few_rows.cu: the same on Hopper for few rows, f32 or in the type of the weights.
bool few_rows_take(const ExecContext& context, const Tensor& x, const CudaLinear& weights);
void multiply_few_rows(const ExecContext& context, const Tensor& x, const CudaLinear& weights, Activation activation,
                       const Tensor& residual, const Tensor& out);

// conv2d_mma.cu: bf16 on tensor cores, patches read in place; channels in multiples of 64 and 8.
bool mma_takes(const Conv2dArgs& args, const CudaConv2d& weights);
void conv2d_mma(const ExecContext& context, const Conv2dArgs& args, const CudaConv2d& weights);

// conv2d_wgmma.cu: the same on Hopper, 3 x 3 with stride 1, without a residual; channels in multiples of 64 and 16.
bool wgmma_takes(const ExecContext& context, const Conv2dArgs& args, const CudaConv2d& weights);
void conv2d_wgmma(const ExecContext& context, const Conv2dArgs& args, const CudaConv2d& weights);

// conv2d_few.cu: f32 with 1, 4 or 16 channels.
bool few_takes(const Conv2dArgs& args, const CudaConv2d& weights);
void conv2d_few(const ExecContext& context, const Conv2dArgs& args, const CudaConv2d& weights);

// conv2d_depthwise.cu: 7 x 7, one channel a group.
bool depthwise_takes(const CudaConv2d& weights);
void conv2d_depthwise(const ExecContext& context, const Conv2dArgs& args, const CudaConv2d& weights);

}  // namespace sam3::cuda
