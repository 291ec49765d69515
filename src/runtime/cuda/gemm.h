#pragma once

#include "runtime/cuda/cuda_device.h"
#include "runtime/kernels.h"

#include <cublasLt.h>

#include <array>
#include <map>
#include <memory>
#include <vector>

namespace sam3::cuda {

// Row-major out[m, n] = alpha * x[m, k] * w + bias[n] + residual, once for each of `batch` matrices.
// Type of x and w alike: f32 or bf16; residual and bias have the type of out. With f16, which is for sums that go on,
// with a rotation and with a width it is a product that own_product_takes(); so it is with u8: codes of e4m3, with
// scales.
struct Gemm {
    int64_t m = 0, n = 0, k = 0;
    DType in_type = DType::f32, out_type = DType::f32;
    bool rows_of_w = true;  // w is [n, k], as weights are; otherwise [k, n]
    bool relu = false;
    bool gelu = false;  // in its tanh form, the library's own
    bool fast = false;  // f32: products may be rounded to TF32's 10 bits
    float alpha = 1;
    int64_t x_stride = 0, w_stride = 0, out_stride = 0, residual_stride = 0;
    int64_t batch = 1, x_batch = 0, w_batch = 0, out_batch = 0, residual_batch = 0;
    const void* x = nullptr;
    const void* w = nullptr;
    const void* bias = nullptr;
    const float* exact_bias = nullptr;  // the same bias in f32
    const void* residual = nullptr;
    const float *x_scales = nullptr, *w_scales = nullptr;  // of rows
    const RopeArgs* rotation = nullptr;                    // of a part of the result, at last
    // Not 0: rows are pixels of images this wide, and each becomes 2 x 2 of them: out is dense, [N, 2H, 2W, n / 4].
    int64_t width = 0;
    void* out = nullptr;
};

// Products by cuBLASLt, or by a kernel of our own. Each new shape is tried with several algorithms once; the fastest is
// kept.
class GemmPlans {
public:
    explicit GemmPlans(MemoryPool& pool);
    GemmPlans(const GemmPlans&) = delete;
    GemmPlans& operator=(const GemmPlans&) = delete;
    ~GemmPlans();

    void run(const ExecContext& context, const Gemm& gemm);

private:
    struct Plan;
    Plan& plan_for(const Gemm& gemm);
    void tune(const ExecContext& context, Plan& plan, const Gemm& wanted, size_t most);
    bool multiply(const Plan& plan, const cublasLtMatmulHeuristicResult_t& choice, const Gemm& gemm,
                  CudaDevice& device);

    MemoryPool& pool_;
    cublasLtHandle_t handle_ = nullptr;
    std::array<void*, kLanes> workspaces_{};  // lanes may work at the same time
    std::map<std::vector<int64_t>, std::unique_ptr<Plan>> plans_;
};

// Our own, for Hopper, and which products it can make.
bool own_product_takes(const ExecContext& context, const Gemm& gemm);
bool own_product_rotates(const RopeArgs& args);
void own_product(const ExecContext& context, const Gemm& gemm, cudaStream_t stream);

// The product in the device's stream.
void run_gemm(const ExecContext& context, const Gemm& gemm);

}  // namespace sam3::cuda
