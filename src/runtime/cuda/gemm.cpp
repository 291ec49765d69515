#include "runtime/cuda/gemm.h"

#include "runtime/cuda/kernels.h"

#include <algorithm>
#include <array>

namespace sam3::cuda {

namespace {

constexpr size_t kWorkspace = size_t{32} << 20;
constexpr int kMostAlgorithms = 32;
constexpr int kTrials = 5;             // of an algorithm, back to back
constexpr double kWorthTuning = 1e5;   // floating-point operations: less takes one launch, whatever is chosen
constexpr double kNotWorthMore = 1e9;  // below this, the library's first guesses are enough to choose from
constexpr size_t kGuesses = 8;
constexpr int kTurns = 3;  // that a kernel of our own must win

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
    bool own = false;  // our own kernel is faster

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
    for (void*& workspace : workspaces_) workspace = pool_.allocate(kWorkspace);
}

GemmPlans::~GemmPlans() {
    plans_.clear();
    for (void* workspace : workspaces_) pool_.release(workspace);
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
    const int64_t c_batch = gemm.residual != nullptr ? gemm.residual_batch : gemm.out_batch;
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
                                      gemm.residual != nullptr ? gemm.residual_batch : -1,
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
    plan->residual = make_layout(gemm.out_type, gemm.n, gemm.m, c_stride, gemm.batch, c_batch);
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

bool GemmPlans::multiply(const Plan& plan, const cublasLtMatmulHeuristicResult_t& choice, const Gemm& gemm,
                         CudaDevice& device) {
    const float beta = gemm.residual != nullptr ? 1.0F : 0.0F;
    if (gemm.bias != nullptr) plan.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, gemm.bias);
    void* workspace = workspaces_[static_cast<size_t>(device.lane())];
    size_t bytes = kWorkspace;
    if (choice.workspaceSize > 0 && choice.workspaceSize <= CudaDevice::kCounterBytes)
        if (void* const counter = device.next_counter()) {
            workspace = counter;
            bytes = CudaDevice::kCounterBytes;
        }
    return cublasLtMatmul(handle_, plan.operation, &gemm.alpha, gemm.w, plan.w, gemm.x, plan.x, &beta,
                          gemm.residual != nullptr ? gemm.residual : gemm.out, plan.residual, gemm.out, plan.out,
                          &choice.algo, workspace, bytes, device.stream()) == CUBLAS_STATUS_SUCCESS;
}

namespace {

// Milliseconds of some runs in a row, as a graph: small products end faster than they can be launched one by one. Less
// than zero when it does not work.
template <typename Work>
float time_of(cudaStream_t stream, const Work& work) {
    struct Captured {
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t executable = nullptr;
        std::array<cudaEvent_t, 2> events{};
        ~Captured() {
            for (cudaEvent_t event : events)
                if (event != nullptr) cudaEventDestroy(event);
            if (executable != nullptr) cudaGraphExecDestroy(executable);
            if (graph != nullptr) cudaGraphDestroy(graph);
            cudaGetLastError();  // what went wrong here is no failure of what comes next
        }
    } captured;
    if (!work()) return -1;
    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) != cudaSuccess) return -1;
    bool works = true;
    for (int trial = 0; trial < kTrials; ++trial) works = work() && works;
    if (cudaStreamEndCapture(stream, &captured.graph) != cudaSuccess || !works) return -1;
    if (cudaGraphInstantiate(&captured.executable, captured.graph, 0) != cudaSuccess) return -1;
    for (cudaEvent_t& event : captured.events)
        if (cudaEventCreate(&event) != cudaSuccess) return -1;
    cudaGraphLaunch(captured.executable, stream);  // once to warm up
    cudaEventRecord(captured.events[0], stream);
    cudaGraphLaunch(captured.executable, stream);
    cudaEventRecord(captured.events[1], stream);
    float milliseconds = 0;
    if (cudaEventSynchronize(captured.events[1]) != cudaSuccess ||
        cudaEventElapsedTime(&milliseconds, captured.events[0], captured.events[1]) != cudaSuccess)
        return -1;
    return milliseconds;
}

}  // namespace

void GemmPlans::tune(const ExecContext& context, Plan& plan, const Gemm& wanted, size_t most) {
    constexpr int64_t kFewest = 1024;  // rows: less would leave most of the GPU to our own kernel idle
    CudaDevice& device = device_of(context);
    plan.tuned = true;
    // Elsewhere: a residual that is added in place would be added again with every trial.
    Gemm gemm = wanted;
    const int64_t elements = (gemm.batch - 1) * gemm.out_batch + gemm.m * gemm.out_stride;
    void* const elsewhere = pool_.allocate(static_cast<size_t>(elements) * size_of(gemm.out_type));
    gemm.out = elsewhere;
    float best = -1;
    size_t chosen = 0;
    for (size_t i = 0; i < std::min(most, plan.algorithms.size()); ++i) {
        const float time = time_of(device.stream(), [&] { return multiply(plan, plan.algorithms[i], gemm, device); });
        if (time < 0 || (best >= 0 && time >= best)) continue;
        best = time;
        chosen = i;
    }
    if (gemm.m >= kFewest && own_product_takes(context, gemm)) {
        // In turns: clocks change from one moment to the next.
        const auto own = [&] {
            own_product(context, gemm, device.stream());
            return true;
        };
        int faster = 0;
        for (int turn = 0; turn < kTurns; ++turn) {
            const float ours = time_of(device.stream(), own);
            const float theirs =
                time_of(device.stream(), [&] { return multiply(plan, plan.algorithms[chosen], gemm, device); });
            faster += ours >= 0 && (theirs < 0 || ours < theirs) ? 1 : 0;
        }
        plan.own = faster == kTurns;
    }
    pool_.release(elsewhere);
    std::swap(plan.algorithms[0], plan.algorithms[chosen]);
}

void GemmPlans::run(const ExecContext& context, const Gemm& gemm) {
    CudaDevice& device = device_of(context);
    if (gemm.out_type == DType::f16 || gemm.rotation != nullptr || gemm.width > 0 || gemm.in_type == DType::u8)
        return own_product(context, gemm, device.stream());
    Plan& plan = plan_for(gemm);
    const double flops = 2.0 * static_cast<double>(gemm.batch * gemm.m) * static_cast<double>(gemm.n * gemm.k);
    if (!plan.tuned && !device.capturing() && flops >= kWorthTuning)
        tune(context, plan, gemm, flops < kNotWorthMore ? kGuesses : kMostAlgorithms);
    if (plan.own)
        own_product(context, gemm, device.stream());
    else if (!multiply(plan, plan.algorithms.front(), gemm, device))
        fail("cuBLASLt: the product ", gemm.m, " x ", gemm.n, " x ", gemm.k, " failed");
}

void run_gemm(const ExecContext& context, const Gemm& gemm) {
    CudaDevice& device = device_of(context);
    const auto held = device.lock();
    device.gemms().run(context, gemm);
}

}  // namespace sam3::cuda
