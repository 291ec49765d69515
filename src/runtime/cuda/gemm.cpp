#include "runtime/cuda/gemm.h"

#include "runtime/cuda/kernels.h"

#include <algorithm>
#include <array>

namespace sam3::cuda {

namespace {

constexpr size_t kWorkspace = size_t{64} << 20;
constexpr int kMostAlgorithms = 12;
constexpr int kTrials = 3;
constexpr double kWorthTuning = 2e8;  // floating-point operations

void check(cublasStatus_t status, const char* what) {
    if (status != CUBLAS_STATUS_SUCCESS) fail("cuBLASLt: ", what, ": ", cublasLtGetStatusString(status));
}

cudaDataType_t type_of(DType type) {
    switch (type) {
        case DType::f32: return CUDA_R_32F;
        case DType::bf16: return CUDA_R_16BF;
        default: fail("products of the GPU take f32 and bf16, found ", name_of(type));
    }
}

// The largest power of two, up to 16, that divides the address and the row's bytes.
int64_t alignment_of(const void* data, int64_t stride, DType type) {
    const auto bits = reinterpret_cast<uintptr_t>(data) | static_cast<uintptr_t>(stride) * size_of(type);
    return static_cast<int64_t>(std::min<uintptr_t>(bits & (~bits + 1), 16));
}

}  // namespace

// Column-major, as the library thinks: out^T [n, m] = w [n, k] * x^T [k, m].
struct GemmPlans::Plan {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t w = nullptr, x = nullptr, residual = nullptr, out = nullptr;
    std::vector<cublasLtMatmulHeuristicResult_t> algorithms;  // the best first
    bool tuned = false;

    Plan() = default;
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;
    ~Plan() {
        for (cublasLtMatrixLayout_t layout : {w, x, residual, out})
            if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
        if (operation != nullptr) cublasLtMatmulDescDestroy(operation);
    }

    template <typename T>
    void set(cublasLtMatmulDescAttributes_t attribute, const T& value) const {
        check(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value), "describing a product");
    }
};

GemmPlans::GemmPlans(MemoryPool& pool) : pool_(pool) {
    check(cublasLtCreate(&handle_), "starting");
    workspace_ = pool_.allocate(kWorkspace);
}

GemmPlans::~GemmPlans() {
    plans_.clear();
    pool_.release(workspace_);
    cublasLtDestroy(handle_);
}

namespace {

cublasLtMatrixLayout_t make_layout(DType type, int64_t rows, int64_t columns, int64_t stride, int64_t batch,
                                   int64_t step) {
    cublasLtMatrixLayout_t layout = nullptr;
    check(cublasLtMatrixLayoutCreate(&layout, type_of(type), static_cast<uint64_t>(rows),
                                     static_cast<uint64_t>(columns), stride),
          "describing a matrix");
    const auto count = static_cast<int32_t>(batch);
    cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step);
    return layout;
}

cublasLtEpilogue_t epilogue_of(const Gemm& gemm) {
    const bool bias = gemm.bias != nullptr;
    if (gemm.gelu) return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    if (gemm.relu) return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

}  // namespace

GemmPlans::Plan& GemmPlans::plan_for(const Gemm& gemm) {
    const void* c = gemm.residual != nullptr ? gemm.residual : gemm.out;
    const int64_t c_stride = gemm.residual != nullptr ? gemm.residual_stride : gemm.out_stride;
    const std::array<int64_t, 4> alignments = {
        alignment_of(gemm.w, gemm.w_stride, gemm.in_type), alignment_of(gemm.x, gemm.x_stride, gemm.in_type),
        alignment_of(c, c_stride, gemm.out_type), alignment_of(gemm.out, gemm.out_stride, gemm.out_type)};
    const std::vector<int64_t> key = {gemm.m,
                                      gemm.n,
                                      gemm.k,
                                      static_cast<int64_t>(gemm.in_type),
                                      static_cast<int64_t>(gemm.out_type),
                                      gemm.rows_of_w,
                                      gemm.fast,
                                      static_cast<int64_t>(epilogue_of(gemm)),
                                      gemm.x_stride,
                                      gemm.w_stride,
                                      gemm.out_stride,
                                      gemm.residual != nullptr ? gemm.residual_stride : -1,
                                      gemm.batch,
                                      gemm.x_batch,
                                      gemm.w_batch,
                                      gemm.out_batch,
                                      alignments[0],
                                      alignments[1],
                                      alignments[2],
                                      alignments[3]};
    std::unique_ptr<Plan>& known = plans_[key];
    if (known) return *known;

    auto plan = std::make_unique<Plan>();
    const cublasComputeType_t compute =
        gemm.in_type == DType::f32 && gemm.fast ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check(cublasLtMatmulDescCreate(&plan->operation, compute, CUDA_R_32F), "describing a product");
    plan->set(CUBLASLT_MATMUL_DESC_TRANSA, gemm.rows_of_w ? CUBLAS_OP_T : CUBLAS_OP_N);
    plan->set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(gemm));
    if (gemm.bias != nullptr) plan->set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(gemm.out_type));
    plan->w = gemm.rows_of_w ? make_layout(gemm.in_type, gemm.k, gemm.n, gemm.w_stride, gemm.batch, gemm.w_batch)
                             : make_layout(gemm.in_type, gemm.n, gemm.k, gemm.w_stride, gemm.batch, gemm.w_batch);
    plan->x = make_layout(gemm.in_type, gemm.k, gemm.m, gemm.x_stride, gemm.batch, gemm.x_batch);
    plan->residual = make_layout(gemm.out_type, gemm.n, gemm.m, c_stride, gemm.batch, gemm.out_batch);
    plan->out = make_layout(gemm.out_type, gemm.n, gemm.m, gemm.out_stride, gemm.batch, gemm.out_batch);

    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "choosing an algorithm");
    const size_t workspace = kWorkspace;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                         sizeof workspace);
    constexpr std::array kAlignments = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    for (size_t i = 0; i < kAlignments.size(); ++i) {
        const auto bytes = static_cast<uint32_t>(alignments[i]);
        cublasLtMatmulPreferenceSetAttribute(preference, kAlignments[i], &bytes, sizeof bytes);
    }
    std::array<cublasLtMatmulHeuristicResult_t, kMostAlgorithms> found{};
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle_, plan->operation, plan->w, plan->x, plan->residual, plan->out,
                                       preference, kMostAlgorithms, found.data(), &count);
    cublasLtMatmulPreferenceDestroy(preference);
    if (status != CUBLAS_STATUS_SUCCESS || count == 0)
        fail("cuBLASLt has no algorithm for the product ", gemm.m, " x ", gemm.n, " x ", gemm.k, " in ",
             name_of(gemm.in_type), ": ", cublasLtGetStatusString(status));
    plan->algorithms.assign(found.begin(), found.begin() + count);
    known = std::move(plan);
    return *known;
}

cublasStatus_t GemmPlans::multiply(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm, const Gemm& gemm,
                                   cudaStream_t stream) {
    const float beta = gemm.residual != nullptr ? 1.0F : 0.0F;
    if (gemm.bias != nullptr) plan.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, gemm.bias);
    return cublasLtMatmul(handle_, plan.operation, &gemm.alpha, gemm.w, plan.w, gemm.x, plan.x, &beta,
                          gemm.residual != nullptr ? gemm.residual : gemm.out, plan.residual, gemm.out, plan.out,
                          &algorithm, workspace_, kWorkspace, stream);
}

void GemmPlans::tune(Plan& plan, const Gemm& gemm, cudaStream_t stream) {
    plan.tuned = true;
    cudaEvent_t start = nullptr;
    cudaEvent_t end = nullptr;
    cudaEventCreate(&start);
    cudaEventCreate(&end);
    float best = -1;
    size_t chosen = 0;
    for (size_t i = 0; i < plan.algorithms.size(); ++i) {
        if (multiply(plan, plan.algorithms[i].algo, gemm, stream) != CUBLAS_STATUS_SUCCESS) continue;
        cudaEventRecord(start, stream);
        for (int trial = 0; trial < kTrials; ++trial) multiply(plan, plan.algorithms[i].algo, gemm, stream);
        cudaEventRecord(end, stream);
        float milliseconds = 0;
        if (cudaEventSynchronize(end) != cudaSuccess) continue;
        cudaEventElapsedTime(&milliseconds, start, end);
        if (best < 0 || milliseconds < best) {
            best = milliseconds;
            chosen = i;
        }
    }
    cudaEventDestroy(start);
    cudaEventDestroy(end);
    std::swap(plan.algorithms[0], plan.algorithms[chosen]);
}

void GemmPlans::run(const Gemm& gemm, cudaStream_t stream, bool capturing) {
    Plan& plan = plan_for(gemm);
    const double flops = 2.0 * static_cast<double>(gemm.batch * gemm.m) * static_cast<double>(gemm.n * gemm.k);
    const bool in_place = gemm.residual == gemm.out;  // trials would add the residual again and again
    if (!plan.tuned && !capturing && !in_place && flops >= kWorthTuning) tune(plan, gemm, stream);
    check(multiply(plan, plan.algorithms.front().algo, gemm, stream), "multiplying");
}

void run_gemm(const ExecContext& context, const Gemm& gemm) {
    CudaDevice& device = device_of(context);
    const auto held = device.lock();
    device.gemms().run(gemm, device.stream(), device.capturing());
}

}  // namespace sam3::cuda
