#pragma once

#include "runtime/device.h"
#include "runtime/profiler.h"

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sam3 {

struct AttentionOptions {
    int heads = 1;
    float scale = 0;  // 0: 1 / sqrt(head size)
    int window = 0;
    bool causal = false;
    Tensor key_mask{};   // u8 [N, Tk]
    Tensor bias{};       // [N, heads, Tq, Tk]
    Tensor bias_rows{};  // [N, heads, Tq, Kh]
    Tensor bias_cols{};  // [N, heads, Tq, Kw]
};

// The operators that networks are written with. Checks shapes, allocates results, measures, and calls the device.
// A wrong shape is a bug in a model file or in the program: it throws Error with both shapes.
// One per session; not thread-safe. Results are new tensors unless the name ends in an underscore. Their type: that of
// the residual, else of the layer for linear layers and convolutions; the wider one of two inputs; else the input's.
class Ops {
public:
    Ops(Device& device, int threads);

    Device& device() const { return device_; }
    int threads() const { return context_.threads; }
    // Of products of f32 tensors, above all attention's; linear layers and convolutions have theirs from when their
    // weights were packed. Devices use the nearest better one that they are fast in.
    void set_precision(Precision precision) { context_.precision = precision; }
    void set_profiler(Profiler* profiler) { profiler_ = profiler; }
    Profiler* profiler() const { return profiler_; }
    // Receives named intermediates (`--dump`, parity tests); the names are documented in docs/parity.md.
    using TraceSink = std::function<void(const std::string& name, const Tensor& tensor)>;
    void set_trace(TraceSink sink) { trace_ = std::move(sink); }
    bool tracing() const { return static_cast<bool>(trace_); }
    void trace(const std::string& name, const Tensor& tensor) const {
        if (trace_) trace_(name, tensor);
    }

    Tensor empty(const Shape& shape, DType type = DType::f32);
    Tensor full(const Shape& shape, float value, DType type = DType::f32);
    Tensor upload(const Tensor& host);          // host memory -> device, dense
    Tensor download(const Tensor& tensor);      // device -> host memory, dense; half types become f32
    Tensor download_raw(const Tensor& tensor);  // the same with the type as it is

    Tensor linear(const Tensor& x, const PackedLinear& weights, Activation activation = Activation::none,
                  const Tensor& residual = {});
    // The same into memory that is there, as a part of a larger tensor; of the type that linear() gives.
    void linear_to(const Tensor& out, const Tensor& x, const PackedLinear& weights,
                   Activation activation = Activation::none, const Tensor& residual = {}) {
        linear_to(out, x, weights, activation, residual, {});
    }
    // A linear layer, of whose result the first `heads` heads are rotated as by rope_2d_().
    Tensor linear_rotated(const Tensor& x, const PackedLinear& weights, const Tensor& table, int heads, int window = 0);
    // With `offsets`, [B, rows, 1], each row of the product has a number added to it.
    Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_b = false, float alpha = 1.0F,
                  const Tensor& offsets = {});
    Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options);
    void rope_2d_(const Tensor& x, const Tensor& table, int heads, int window = 0);
    Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, float eps,
                      Activation activation = Activation::none, DType type = DType::f32);
    // The norm, and its sum with `added`, or with nothing, as stored_sum() gives it; `added` is repeated as it is in
    // add().
    std::pair<Tensor, Tensor> layer_norm_and_sum(const Tensor& x, const Tensor& gamma, const Tensor& beta, float eps,
                                                 const Tensor& added, DType type = DType::f32);
    Tensor group_norm(const Tensor& x, int groups, const Tensor& gamma, const Tensor& beta, float eps,
                      Activation activation = Activation::none);
    Tensor softmax(const Tensor& x);
    Tensor conv2d(const Tensor& x, const PackedConv2d& weights, Activation activation = Activation::none,
                  const Tensor& residual = {});
    Tensor conv_transpose_2x2(const Tensor& x, const PackedLinear& weights, Activation activation = Activation::none,
                              const Tensor& residual = {});
    Tensor resize(const Tensor& x, int64_t height, int64_t width, Interpolation mode, bool antialias = false);
    // x, resized to the size of `added`, plus that, of which there may be one for all of the batch; of x's type.
    Tensor resize_and_add(const Tensor& x, const Tensor& added, Interpolation mode);
    // Maps [N, H, W], bilinearly resized -> u8, 1 where they are above the threshold.
    Tensor resize_above(const Tensor& x, int64_t height, int64_t width, float threshold);
    Tensor roi_align(const Tensor& x, const Tensor& boxes, int64_t height, int64_t width, float spatial_scale = 1.0F,
                     int sampling_ratio = -1, bool aligned = false);
    Tensor grid_sample(const Tensor& x, const Tensor& grid);
    Tensor max_pool(const Tensor& x, int kernel, int stride);

    Tensor unary(const Tensor& x, Unary function);
    Tensor affine(const Tensor& x, float scale, float shift);  // scale * x + shift
    Tensor clamp(const Tensor& x, float low, float high);
    Tensor binary(const Tensor& a, const Tensor& b, Binary function);  // NumPy's broadcasting
    Tensor add(const Tensor& a, const Tensor& b) { return binary(a, b, Binary::add); }
    Tensor sub(const Tensor& a, const Tensor& b) { return binary(a, b, Binary::sub); }
    Tensor mul(const Tensor& a, const Tensor& b) { return binary(a, b, Binary::mul); }
    void add_(const Tensor& a, const Tensor& b);  // a += b

    Tensor contiguous(const Tensor& x);  // x itself when dense
    Tensor cast(const Tensor& x, DType type);
    // In the type that the device keeps between the layers of a large part: for what several of them read.
    Tensor stored(const Tensor& x) { return cast(x, stored_type()); }
    DType stored_type() const { return device_.storage_type(context_.precision); }
    Tensor stored_sum(const Tensor& a, const Tensor& b);          // stored(add(a, b)) in one step
    void copy_(const Tensor& destination, const Tensor& source);  // shapes equal, either side strided
    Tensor permute(const Tensor& x, const std::vector<int>& order);
    Tensor concat(const std::vector<Tensor>& parts, int dim);
    Tensor pad_bottom_right(const Tensor& x, int64_t height, int64_t width);  // zeros, [N, H, W, C]
    Tensor embedding(const Tensor& table, const Tensor& ids);                 // ids i32 [...] -> [..., C]
    Tensor gather_rows(const Tensor& x, const Tensor& ids);
    std::pair<Tensor, Tensor> topk(const Tensor& x, int64_t k);
    Tensor sine_embed(const Tensor& x, int dim, float temperature, float scale);  // [...] -> [..., dim]

    // u8 [A, L, B] -> u8 [A, I, B]: an image's rows or columns, by weights in fixed point
    Tensor resample(const Tensor& x, const Tensor& first, const Tensor& weights, int precision);
    // What attention from boxes [N, Q, 4] and a token before them to a grid of pixels adds: bias_rows and bias_cols.
    AttentionOptions box_bias(const Tensor& boxes, const BoxBiasWeights& to_cols, const BoxBiasWeights& to_rows,
                              int64_t height, int64_t width);

    // Runs a stage: a unit that a device may capture and replay. The body sees only its inputs and constants.
    std::vector<Tensor> stage(const std::string& name, const std::vector<Tensor>& inputs,
                              const Device::StageBody& body);
    // One that starts from host memory and may run beside the work before it.
    std::vector<Tensor> stage_aside(const std::string& name, const std::vector<Tensor>& host_inputs,
                                    const Device::StageBody& body);
    // Within a stage: work that may run beside what follows, until join(). Two at a time, of which the later is joined
    // first.
    template <typename Work>
    auto beside(Work&& work, BranchShare share = BranchShare::third) {
        device_.begin_branch(share);
        auto result = work();
        device_.end_branch();
        return result;
    }
    void join() { device_.join_branch(); }

private:
    void linear_to(const Tensor& out, const Tensor& x, const PackedLinear& weights, Activation activation,
                   const Tensor& residual, const RopeArgs& rotation);
    Tensor matrix(const Tensor& x);  // [rows, C] view, copied only when rows have no common stride
    Tensor binary(const Tensor& a, const Tensor& b, Binary function, DType type);
    template <typename Args>
    void run(const char* name, void (*kernel)(const ExecContext&, const Args&), const Args& args, const Tensor& out,
             double flops);

    Device& device_;
    ExecContext context_;
    std::unique_ptr<StageCache> stages_;
    Profiler* profiler_ = nullptr;
    TraceSink trace_;
};

}  // namespace sam3
