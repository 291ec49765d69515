#include "runtime/cuda/gemm.h"
#include "runtime/cuda/kernels.h"

namespace sam3::cuda {

void matmul(const ExecContext& context, const MatmulArgs& args) {
    // Where one side is bf16 already, rounding the other costs no more.
    const bool half = args.a.dtype() == DType::bf16 || args.b.dtype() == DType::bf16;
    const DType type = half ? DType::bf16 : DType::f32;
    const Tensor a = as_type(context, args.a, type);
    const Tensor b = as_type(context, args.b, type);
    Gemm gemm;
    gemm.m = a.dim(1);
    gemm.n = args.out.dim(2);
    gemm.k = a.dim(2);
    gemm.in_type = type;
    gemm.out_type = args.out.dtype();
    gemm.rows_of_w = args.transpose_b;
    gemm.fast = context.precision != Precision::f32;
    gemm.alpha = args.alpha;
    gemm.x = a.raw();
    gemm.x_stride = a.dim(1) == 1 ? gemm.k : a.stride(1);
    gemm.w = b.raw();
    gemm.w_stride = b.dim(1) == 1 ? b.dim(2) : b.stride(1);
    gemm.out = args.out.raw();
    gemm.out_stride = gemm.n;
    gemm.batch = a.dim(0);
    gemm.x_batch = a.stride(0);
    gemm.w_batch = b.stride(0);
    gemm.out_batch = args.out.stride(0);
    run_gemm(context, gemm);
}

}  // namespace sam3::cuda
