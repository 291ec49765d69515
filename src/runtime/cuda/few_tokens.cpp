#include "runtime/cuda/few_tokens.h"

#include "runtime/cuda/weights.h"

#include <algorithm>
#include <utility>

namespace sam3::cuda {

namespace {

constexpr size_t kLeastSteps = 4;  // that are worth a program
constexpr int64_t kCounters = 2;   // of a program
constexpr float kLog2E = 1.44269504088896340736F;

int as_int(int64_t x) { return static_cast<int>(x); }
int stride_of(const Tensor& x) { return as_int(x.rows() > 1 ? x.row_stride() : x.dim(-1)); }
bool is_half(const Tensor& x) { return x.dtype() == DType::bf16; }

// Rows of few tokens at addresses that are multiples of 16 bytes.
bool is_tokens(const Tensor& x) {
    const auto elements = static_cast<int64_t>(16 / size_of(x.dtype()));
    return (x.dtype() == DType::f32 || is_half(x)) && x.rank() > 1 && x.rows() <= kMostTokens && x.has_uniform_rows() &&
           reinterpret_cast<uintptr_t>(x.raw()) % 16 == 0 && (x.rows() == 1 || x.row_stride() % elements == 0);
}

TokenStep step_of(TokenStepKind kind, const Tensor& x, const Tensor& out) {
    TokenStep step;
    step.kind = kind;
    step.half_out = is_half(out);
    step.rows = as_int(x.rows());
    step.columns = as_int(out.dim(-1));
    step.x_stride = stride_of(x);
    step.out_stride = stride_of(out);
    step.x = x.raw();
    step.out = out.raw();
    return step;
}

// Whether a linear layer is one of what the step before it has normalised: that is then done by the layer.
bool takes_norm(TokenStep& linear, const TokenStep& norm) {
    if (linear.kind != TokenStepKind::linear || norm.kind != TokenStepKind::norm || !norm.half_out ||
        linear.x != norm.normed || linear.rows != norm.rows || linear.depth != norm.columns ||
        linear.x_stride != norm.normed_stride || !can_be_normed(linear))
        return false;
    linear.x = norm.x;
    linear.x_stride = norm.x_stride;
    linear.gamma = norm.gamma;
    linear.beta = norm.beta;
    linear.normed = norm.normed;
    linear.normed_stride = norm.normed_stride;
    linear.number = norm.number;
    return true;
}

}  // namespace

FewTokens::FewTokens(Device& device) : fits_(static_cast<CudaDevice&>(device).is_hopper() && few_tokens_fit()) {
    const ExecContext context{device, 1, Precision::f32};
    meeting_ = new_tensor(context, {static_cast<int64_t>(kLanes), kCounters}, DType::i32);
    fill(context, FillArgs{meeting_, 0.0F});
}

bool FewTokens::is_open(const ExecContext& context) const {
    const CudaDevice& device = device_of(context);
    return fits_ && !alone_ && device.capturing() && !device.is_branched() && context.precision != Precision::f32;
}

template <typename Args>
bool FewTokens::append(const TokenStep& step, const ExecContext& context, const Args& args,
                       void (*kernel)(const ExecContext&, const Args&)) {
    if (steps_.size() == TokenProgram::kMostSteps) start();
    steps_.push_back({step, context, [context, args, kernel] { kernel(context, args); }});
    return true;
}

void FewTokens::start() {
    if (steps_.empty()) return;
    const std::vector<Noted> steps = std::exchange(steps_, {});
    if (steps.size() < kLeastSteps) {
        alone_ = true;
        try {
            for (const Noted& noted : steps) noted.alone();
        } catch (...) {
            alone_ = false;
            throw;
        }
        alone_ = false;
        return;
    }
    const ExecContext& context = steps.front().context;
    const auto lane = static_cast<int64_t>(device_of(context).lane());
    TokenProgram program;
    program.meeting = meeting_.data<unsigned>() + lane * kCounters;
    for (const Noted& noted : steps) {
        TokenStep step = noted.step;
        if (program.count > 0 && takes_norm(step, program.steps[program.count - 1])) --program.count;
        program.steps[program.count++] = step;
    }
    for (int i = program.count; i-- > 0;) {
        if (program.steps[i].kind != TokenStepKind::linear) continue;
        program.steps[i].next_linear = program.first_linear;
        program.first_linear = i;
    }
    start_few_tokens(context, program);
}

bool FewTokens::note(const ExecContext& context, const LinearArgs& args) {
    constexpr int64_t kLeastDepth = 512;  // of layers that are read from memory rather than from the cache
    const auto& weights = static_cast<const CudaLinear&>(*args.weights);
    if (!is_half(weights.weight) || args.rotation.x || weights.in_features < kLeastDepth) return false;
    if (!is_half(args.x) || !is_tokens(args.x) || !is_tokens(args.out)) return false;
    if (args.residual && (!is_tokens(args.residual) || is_half(args.residual))) return false;
    TokenStep step = step_of(TokenStepKind::linear, args.x, args.out);
    step.depth = as_int(weights.in_features);
    step.activation = args.activation;
    step.w = weights.weight.raw();
    if (weights.bias) step.bias = weights.bias.raw();
    if (args.residual) {
        step.more = args.residual.raw();
        step.more_stride = stride_of(args.residual);
    }
    return divide_for_tokens(step) && append(step, context, args, &cuda::linear);
}

bool FewTokens::note(const ExecContext& context, const LayerNormArgs& args) {
    constexpr int64_t kLeastChannels = 512, kMostChannels = 1024;
    const int64_t channels = args.x.dim(-1);
    if (args.sum || args.activation != Activation::none || channels < kLeastChannels || channels > kMostChannels)
        return false;
    if (is_half(args.x) || channels % 4 != 0 || !is_tokens(args.x) || !is_tokens(args.out)) return false;
    TokenStep step = step_of(TokenStepKind::norm, args.x, args.out);
    step.depth = step.columns;
    step.number = args.eps;
    step.gamma = args.gamma.raw();
    step.beta = args.beta.raw();
    step.normed = args.out.raw();
    step.normed_stride = step.out_stride;
    return append(step, context, args, &cuda::layer_norm);
}

bool FewTokens::note(const ExecContext& context, const AttentionArgs& args) {
    constexpr int64_t kHeadSize = 64;
    if (steps_.empty() || args.window != 0 || args.bias || args.bias_rows || args.q.dim(0) != 1) return false;
    if (args.q.dim(-1) != kHeadSize * args.heads || args.v.dim(-1) != args.q.dim(-1)) return false;
    for (const Tensor* x : {&args.q, &args.k, &args.v, &args.out})
        if (!is_half(*x) || !is_tokens(*x)) return false;
    TokenStep step = step_of(TokenStepKind::attention, args.q, args.out);
    step.causal = args.causal;
    step.depth = as_int(args.k.dim(1));
    step.number = args.scale * kLog2E;
    step.w = args.k.raw();
    step.w_stride = stride_of(args.k);
    step.more = args.v.raw();
    step.more_stride = stride_of(args.v);
    if (args.key_mask) step.bias = args.key_mask.raw();
    return append(step, context, args, &cuda::attention);
}

}  // namespace sam3::cuda
