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

// Whether a linear layer multiplies what the step before it puts down, and can do that step's work itself.
bool continues(const TokenStep& linear, const TokenStep& before) {
    return linear.kind == TokenStepKind::linear && linear.x == before.out && linear.x_stride == before.out_stride &&
           linear.rows == before.rows && linear.depth == before.columns && can_prepare(linear);
}

// The layer begins where that step does, and leaves its results where that step would.
void begin_with(TokenStep& linear, const TokenStep& before) {
    linear.x = before.x;
    linear.x_stride = before.x_stride;
    linear.number = before.number;
    linear.prepared = before.out;
    linear.prepared_stride = before.out_stride;
}

// Whether a linear layer is one of what the step before it has normalised: that is then done by the layer.
bool takes_norm(TokenStep& linear, const TokenStep& norm) {
    if (norm.kind != TokenStepKind::norm || !norm.half_out || !continues(linear, norm)) return false;
    begin_with(linear, norm);
    linear.gamma = norm.gamma;
    linear.beta = norm.beta;
    return true;
}

// The same for attention among the rows of one tensor.
bool takes_attention(TokenStep& linear, const TokenStep& attention) {
    if (attention.kind != TokenStepKind::attention || !continues(linear, attention)) return false;
    const auto* const queries = static_cast<const uint16_t*>(attention.x);
    if (attention.depth != attention.rows || attention.w != queries + attention.columns ||
        attention.more != queries + 2 * attention.columns || attention.w_stride != attention.x_stride ||
        attention.more_stride != attention.x_stride)
        return false;
    begin_with(linear, attention);
    linear.attends = true;
    linear.causal = attention.causal;
    linear.mask = attention.mask;
    return true;
}

// Memory that rows take.
struct Range {
    const unsigned char *first, *end;

    Range(const void* x, int rows, int columns, int stride, bool half)
        : first(static_cast<const unsigned char*>(x)),
          end(first == nullptr ? first
                               : first + (static_cast<ptrdiff_t>(rows - 1) * stride + columns) * (half ? 2 : 4)) {}
    bool meets(const Range& other) const { return first < other.end && other.first < end; }
};
Range out_of(const TokenStep& step) { return {step.out, step.rows, step.columns, step.out_stride, step.half_out}; }
Range prepared_by(const TokenStep& step) {
    const bool half = step.kind == TokenStepKind::linear || step.half_out;
    return {step.prepared, step.rows, step.depth, step.prepared_stride, half};
}
Range added_by(const TokenStep& step) { return {step.more, step.rows, step.columns, step.more_stride, false}; }

// Whether a thread adds only what it has written itself, or what no step has written.
bool adds_its_own(const TokenProgram& program, int number) {
    const TokenStep& step = program.steps[number];
    const Range more = added_by(step);
    for (int i = number; i-- > 0;) {
        const TokenStep& earlier = program.steps[i];
        if (more.meets(prepared_by(earlier))) return false;
        if (more.meets(out_of(earlier)))
            return earlier.kind == TokenStepKind::linear && earlier.out == step.more && !earlier.half_out &&
                   earlier.out_stride == step.more_stride && earlier.columns == step.columns &&
                   earlier.rows == step.rows;
    }
    return true;
}

// Whether a step gets from the one before it all that others have written, and nothing else. The memory that they have
// in common is written in the order of the steps only if there is another step between them.
bool takes_over(const TokenProgram& program, int number) {
    const TokenStep& step = program.steps[number];
    const TokenStep& before = program.steps[number - 1];
    return step.kind == TokenStepKind::linear && before.kind == TokenStepKind::linear && has_all_blocks(step) &&
           has_all_blocks(before) && step.x == before.out && step.x_stride == before.out_stride &&
           step.rows == before.rows && before.columns == step.depth * (step.attends ? 3 : 1) &&
           before.half_out == (step.gamma == nullptr) && adds_its_own(program, number) &&
           !prepared_by(before).meets(out_of(step)) && !prepared_by(before).meets(prepared_by(step));
}

// Whether nobody reads what a linear layer prepares: another one writes it to the same place.
bool is_prepared_in_vain(const TokenProgram& program, int number) {
    const TokenStep& step = program.steps[number];
    if (step.kind != TokenStepKind::linear || step.prepared == nullptr) return false;
    for (int i = number + 1; i < program.count; ++i) {
        const TokenStep& later = program.steps[i];
        if (later.kind != TokenStepKind::linear || added_by(later).meets(prepared_by(step))) return false;
        const int width = later.depth * (later.attends ? 3 : 1);
        const Range x(later.x, later.rows, width, later.x_stride, later.gamma == nullptr);
        if (x.meets(prepared_by(step))) return false;
        if (later.prepared == step.prepared && later.prepared_stride == step.prepared_stride &&
            later.rows == step.rows && later.depth == step.depth)
            return true;
    }
    return false;
}

}  // namespace

FewTokens::FewTokens(Device& device) : fits_(static_cast<CudaDevice&>(device).is_hopper() && few_tokens_fit()) {
    const ExecContext context{device, 1, Precision::f32};
    meeting_ = new_tensor(context, {static_cast<int64_t>(kLanes), kCounters}, DType::i32);
    fill(context, FillArgs{meeting_, 0.0F});
    handover_ = new_tensor(context, {static_cast<int64_t>(kLanes), kHandoverBytes / 4}, DType::i32);
    fill(context, FillArgs{handover_, -1.0F});
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
    program.handover = handover_.data<unsigned char>() + lane * kHandoverBytes;
    for (const Noted& noted : steps) {
        TokenStep step = noted.step;
        if (program.count > 0) {
            const TokenStep& before = program.steps[program.count - 1];
            if (takes_norm(step, before) || takes_attention(step, before)) --program.count;
        }
        program.steps[program.count++] = step;
    }
    for (int i = 0; i < program.count; ++i)
        if (is_prepared_in_vain(program, i)) program.steps[i].prepared = nullptr;
    for (int i = 1; i < program.count; ++i)
        program.steps[i].takes_over = program.steps[i - 1].hands_over = takes_over(program, i);
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
    step.prepared = args.out.raw();
    step.prepared_stride = step.out_stride;
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
    if (args.key_mask) step.mask = args.key_mask.raw();
    return append(step, context, args, &cuda::attention);
}

}  // namespace sam3::cuda
