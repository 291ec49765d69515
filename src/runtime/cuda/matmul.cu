#include "runtime/cuda/gemm.h"
#include "runtime/cuda/kernels.h"

namespace sam3::cuda {

namespace {

// The library adds a number to each column of what it computes, not to each row; but it adds a matrix, and the same one
// to each product of many. So a long row is cut into pieces of this size, to which a matrix as wide is added: small
// enough to stay in the cache, it costs no time, while a pass over a result of this size takes half as long as the
// product.
constexpr int64_t kOffsetsWidth = 256;
constexpr int64_t kWorthCutting = int64_t{1} << 22;  // elements of the result

bool takes_offsets(const MatmulArgs& args) {
    return args.offsets && args.transpose_b && args.out.dim(0) == 1 && args.out.dim(2) % kOffsetsWidth == 0 &&
           args.out.numel() >= kWorthCutting;
}

}  // namespace

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
    if (takes_offsets(args)) {
        const Tensor offsets = new_tensor(context, {1, gemm.m, kOffsetsWidth}, args.out.dtype());
        copy(context, CopyArgs{args.offsets.expand(2, kOffsetsWidth), offsets});
        gemm.batch = gemm.n / kOffsetsWidth;
        gemm.n = gemm.out_batch = gemm.residual_stride = kOffsetsWidth;
        gemm.x_batch = 0;
        gemm.w_batch = kOffsetsWidth * gemm.w_stride;
        gemm.residual = offsets.raw();
        return run_gemm(context, gemm);
    }
    run_gemm(context, gemm);
    if (args.offsets) binary(context, sum_of(args));
}

}  // namespace sam3::cuda
