#pragma once

#include "runtime/cuda/cuda_check.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/kernels.h"

// The operators of NVIDIA GPUs, one file per operator or family of operators. Most take f32 and bf16 tensors in any
// mix.
namespace sam3::cuda {

#define SAM3_KERNEL(name, Args) void name(const ExecContext& context, const Args& args);
SAM3_FOR_EACH_KERNEL(SAM3_KERNEL)
#undef SAM3_KERNEL

inline CudaDevice& device_of(const ExecContext& context) { return static_cast<CudaDevice&>(context.device); }

// Calls `start(stream)`, which launches kernels, and fails with the operator's name when that does not work.
template <typename Start>
void launch(const ExecContext& context, const char* name, const Start& start) {
    CudaDevice& device = device_of(context);
    const auto lock = device.lock();
    start(device.stream());
    check(cudaGetLastError(), name);
}

// A new dense tensor; given back when the last copy goes, safely, because work runs in order.
inline Tensor new_tensor(const ExecContext& context, const Shape& shape, DType type) {
    return Tensor(context.device.allocate(static_cast<size_t>(shape.numel()) * size_of(type)), shape, type);
}

// x itself when it has the type, else a dense copy.
inline Tensor as_type(const ExecContext& context, const Tensor& x, DType type) {
    if (x.dtype() == type) return x;
    Tensor out = new_tensor(context, x.shape(), type);
    copy(context, CopyArgs{x, out});
    return out;
}

constexpr int64_t blocks_for(int64_t items, int64_t each) { return (items + each - 1) / each; }

}  // namespace sam3::cuda
