#include "runtime/cuda/early.cuh"
#include "runtime/cuda/elements.cuh"
#include "runtime/cuda/weights.h"

#include <cuda_fp8.h>

// Rows as codes of e4m3: eight bits, of which three are behind the point. The largest magnitude of a row becomes the
// largest code.
namespace sam3::cuda {

namespace {

constexpr int kThreads = 128;  // a row's
constexpr int kEach = 8;       // elements that a thread takes at a time
constexpr int kMostPieces = 5;
constexpr float kLargest = 448.0F;

template <int kPieces, typename X>
__global__ void __launch_bounds__(kThreads)
    code_kernel(const X* x, int64_t stride, int columns, uint8_t* codes, float* scales) {
    __shared__ float parts[kThreads / 32];
    let_next_start();
    wait_for_earlier();
    const int64_t row = blockIdx.x;
    const int thread = static_cast<int>(threadIdx.x);
    float4 v[kPieces][2];
    float most = 0;
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
        const int column = (p * kThreads + thread) * kEach;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            v[p][half] = {0.0F, 0.0F, 0.0F, 0.0F};
            if (column < columns) v[p][half] = load4(x + row * stride + column + half * 4);
            const float4 a = v[p][half];
            most = fmaxf(most, fmaxf(fmaxf(fabsf(a.x), fabsf(a.y)), fmaxf(fabsf(a.z), fabsf(a.w))));
        }
    }
    most = warp_max(most);
    if (thread % 32 == 0) parts[thread / 32] = most;
    __syncthreads();
    most = fmaxf(fmaxf(parts[0], parts[1]), fmaxf(parts[2], parts[3]));
    const float factor = most > 0 ? kLargest / most : 0.0F;
    if (thread == 0) scales[row] = most / kLargest;
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
        const int column = (p * kThreads + thread) * kEach;
        if (column >= columns) continue;
        unsigned words[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float4 a = v[p][half];
            const unsigned low = __nv_cvt_float2_to_fp8x2({a.x * factor, a.y * factor}, __NV_SATFINITE, __NV_E4M3);
            const unsigned high = __nv_cvt_float2_to_fp8x2({a.z * factor, a.w * factor}, __NV_SATFINITE, __NV_E4M3);
            words[half] = low | high << 16;
        }
        *reinterpret_cast<uint2*>(codes + row * columns + column) = {words[0], words[1]};
    }
}

}  // namespace

bool codes_take(int64_t in, int64_t out) {
    return in % 16 == 0 && out % 16 == 0 && in <= int64_t{kThreads} * kEach * kMostPieces;
}

void code_rows(const ExecContext& context, const Tensor& x, const Tensor& codes, const Tensor& scales) {
    const bool fours = reinterpret_cast<uintptr_t>(x.raw()) % (4 * size_of(x.dtype())) == 0 &&
                       (x.dim(0) == 1 || x.row_stride() % 4 == 0);
    const Tensor rows = fours ? x : new_tensor(context, x.shape(), x.dtype());
    if (!fours) copy(context, CopyArgs{x, rows});
    const auto columns = static_cast<int>(rows.dim(1));
    for_float_type(rows.dtype(), [&](auto type) {
        using X = typename decltype(type)::type;
        const auto kernel = columns <= kThreads * kEach ? code_kernel<1, X> : code_kernel<kMostPieces, X>;
        launch(context, "linear", [&](cudaStream_t stream) {
            KernelLaunch(dim3(static_cast<unsigned>(rows.dim(0))), kThreads, 0, stream)
                .early(context)
                .start("linear", kernel, rows.data<const X>(), rows.row_stride(), columns, codes.data<uint8_t>(),
                       scales.data<float>());
        });
    });
}

}  // namespace sam3::cuda
