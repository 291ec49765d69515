#include "runtime/ops.h"

#include "util/error.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

namespace sam3 {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void require(bool condition, const char* op, const std::string& what) {
    if (!condition) fail(op, ": ", what);
}

std::string shapes(const Tensor& a, const Tensor& b) { return to_string(a.shape()) + " and " + to_string(b.shape()); }

Shape broadcast(const Shape& a, const Shape& b) {
    const int rank = std::max(a.rank(), b.rank());
    Shape out;
    for (int i = 0; i < rank; ++i) {
        const int64_t x = i < rank - a.rank() ? 1 : a[i - (rank - a.rank())];
        const int64_t y = i < rank - b.rank() ? 1 : b[i - (rank - b.rank())];
        if (x != y && x != 1 && y != 1)
            fail("binary: shapes ", to_string(a), " and ", to_string(b), " do not broadcast");
        out.push_back(x == 1 ? y : x);
    }
    return out;
}

Tensor broadcast_to(Tensor x, const Shape& shape) {
    while (x.rank() < shape.rank()) x = x.unsqueeze(0);
    for (int i = 0; i < shape.rank(); ++i) x = x.expand(i, shape[i]);
    return x;
}

// Whether rows of the one shape, over and over again, make the other.
bool repeats_rows(const Shape& some, const Shape& all) {
    int first = 0;
    while (first < some.rank() && some[first] == 1) ++first;
    bool same = some.rank() >= 2 && some.rank() <= all.rank();
    for (int i = 1; i <= some.rank() - first && same; ++i) same = some[some.rank() - i] == all[all.rank() - i];
    return same && some[-1] == all[-1];
}

Shape with_last(Shape shape, int64_t last) {
    shape[-1] = last;
    return shape;
}

DType wider(DType a, DType b) { return a == b ? a : DType::f32; }

// f16 is for sums that go on; see Device::sum_type().
DType result_type(DType layer, const Tensor& residual) {
    if (!residual) return layer;
    return residual.dtype() == DType::f16 ? DType::f16 : wider(layer, residual.dtype());
}

void check_rotation(const Tensor& x, const Tensor& table, int heads, int window) {
    const int rank = window > 0 ? 4 : 3;
    require(x.rank() == rank && heads > 0 && x.dim(-1) % (2 * heads) == 0, "rope_2d",
            str("the input ", to_string(x.shape()), " does not fit ", heads, " heads and window ", window));
    require(table.rank() == 3 && table.dim(1) == x.dim(-1) / heads / 2 && table.dim(2) == 2 && table.is_dense(),
            "rope_2d", str("the table ", to_string(table.shape()), " does not fit the input ", to_string(x.shape())));
    if (window > 0)
        require(
            x.dim(1) % window == 0 && x.dim(2) % window == 0 && table.dim(0) == static_cast<int64_t>(window) * window,
            "rope_2d", str("window ", window, " does not divide ", to_string(x.shape())));
    else
        require(x.dim(1) % table.dim(0) == 0, "rope_2d",
                str(x.dim(1), " tokens are not a multiple of the table's ", table.dim(0)));
}

}  // namespace

Ops::Ops(Device& device, int threads) : device_(device), context_{device, std::max(1, threads), Precision::f32} {}

template <typename Args>
void Ops::run(const char* name, void (*kernel)(const ExecContext&, const Args&), const Args& args, const Tensor& out,
              double flops) {
    if (profiler_ == nullptr) {
        kernel(context_, args);
        return;
    }
    device_.synchronize();
    const auto start = std::chrono::steady_clock::now();
    kernel(context_, args);
    device_.synchronize();
    profiler_->record_operator(name, to_string(out.shape()), seconds_since(start), flops);
}

Tensor Ops::empty(const Shape& shape, DType type) {
    return Tensor(device_.allocate(static_cast<size_t>(shape.numel()) * size_of(type)), shape, type);
}

Tensor Ops::full(const Shape& shape, float value, DType type) {
    Tensor out = empty(shape, type);
    if (out.numel() > 0) run("fill", device_.kernels().fill, FillArgs{out, value}, out, 0);
    return out;
}

Tensor Ops::upload(const Tensor& host) {
    require(host.is_dense(), "upload", "the host tensor must be dense, shape " + to_string(host.shape()));
    return device_.uploaded(host);
}

Tensor Ops::download(const Tensor& tensor) {
    const bool half = tensor.dtype() == DType::bf16 || tensor.dtype() == DType::f16;
    return download_raw(half ? cast(tensor, DType::f32) : tensor);
}

Tensor Ops::download_raw(const Tensor& tensor) {
    const Tensor dense = contiguous(tensor);
    Tensor out(device_.allocate_host(static_cast<size_t>(dense.numel()) * size_of(dense.dtype())), dense.shape(),
               dense.dtype());
    device_.copy_to_host(out.raw(), dense.raw(), static_cast<size_t>(dense.numel()) * size_of(dense.dtype()));
    return out;
}

Tensor Ops::matrix(const Tensor& x) {
    if (x.rank() == 2) return x;
    const Tensor rows = x.has_uniform_rows() ? x : contiguous(x);
    return rows.reshape({rows.rows(), rows.dim(-1)});
}

Tensor Ops::linear(const Tensor& x, const PackedLinear& weights, Activation activation, const Tensor& residual) {
    Tensor out = empty(with_last(x.shape(), weights.out_features), result_type(weights.out_type, residual));
    linear_to(out, x, weights, activation, residual);
    return out;
}

Tensor Ops::linear_rotated(const Tensor& x, const PackedLinear& weights, const Tensor& table, int heads, int window) {
    const Tensor out = empty(with_last(x.shape(), weights.out_features), weights.out_type);
    const Tensor turned = out.slice(-1, 0, heads * 2 * table.dim(1));
    check_rotation(turned, table, heads, window);
    if (!device_.rotates_products()) {
        linear_to(out, x, weights);
        rope_2d_(turned, table, heads, window);
    } else {
        linear_to(out, x, weights, Activation::none, {}, {turned, table, heads, window});
    }
    return out;
}

void Ops::linear_to(const Tensor& out, const Tensor& x, const PackedLinear& weights, Activation activation,
                    const Tensor& residual, const RopeArgs& rotation) {
    require(x.dim(-1) == weights.in_features, "linear",
            str("the input ", to_string(x.shape()), " must end in ", weights.in_features));
    require(out.shape() == with_last(x.shape(), weights.out_features) &&
                out.dtype() == result_type(weights.out_type, residual),
            "linear", "input and result differ: " + shapes(x, out));
    if (residual)
        require(residual.shape() == out.shape(), "linear", "residual and result differ: " + shapes(residual, out));
    if (out.numel() == 0) return;
    if (!out.has_uniform_rows()) return copy_(out, linear(x, weights, activation, residual));
    const Tensor rows = matrix(x);
    const double flops =
        2.0 * static_cast<double>(rows.dim(0)) * static_cast<double>(weights.in_features * weights.out_features);
    run("linear", device_.kernels().linear,
        LinearArgs{rows, &weights, activation, residual ? matrix(cast(residual, out.dtype())) : Tensor(), matrix(out),
                   rotation},
        out, flops);
}

Tensor Ops::matmul(const Tensor& a, const Tensor& b, bool transpose_b, float alpha, const Tensor& offsets) {
    require(a.rank() == 3 && b.rank() == 3 && a.dim(0) == b.dim(0), "matmul",
            "needs two [B, ., .] tensors of one batch size, got " + shapes(a, b));
    const int64_t inner = transpose_b ? b.dim(2) : b.dim(1);
    const int64_t columns = transpose_b ? b.dim(1) : b.dim(2);
    require(a.dim(2) == inner, "matmul", "inner sizes differ: " + shapes(a, b));
    if (offsets)
        require(offsets.shape() == Shape{a.dim(0), a.dim(1), 1}, "matmul",
                "needs an offset for each row, got " + shapes(a, offsets));
    Tensor out = empty({a.dim(0), a.dim(1), columns});
    if (out.numel() == 0) return out;
    const double flops = 2.0 * static_cast<double>(out.numel()) * static_cast<double>(inner);
    run("matmul", device_.kernels().matmul, MatmulArgs{a, b, transpose_b, alpha, offsets, out}, out, flops);
    return out;
}

Tensor Ops::attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
    const int64_t heads = options.heads;
    const int rank = options.window > 0 ? 4 : 3;
    require(q.rank() == rank && k.rank() == rank && v.rank() == rank, "attention",
            str("needs rank ", rank, " tensors, got ", to_string(q.shape()), ", ", to_string(k.shape()), ", ",
                to_string(v.shape())));
    require(heads > 0 && q.dim(-1) % heads == 0 && v.dim(-1) % heads == 0 && q.dim(-1) == k.dim(-1), "attention",
            str("channels of q ", to_string(q.shape()), ", k ", to_string(k.shape()), ", v ", to_string(v.shape()),
                " do not fit ", heads, " heads"));
    for (int i = 0; i + 1 < rank; ++i) {
        require(k.dim(i) == v.dim(i), "attention", "keys and values differ: " + shapes(k, v));
        require(q.dim(i) == k.dim(i) || (i == 1 && options.window == 0), "attention",
                "queries and keys differ: " + shapes(q, k));
    }
    const int64_t head_size = q.dim(-1) / heads;
    const int64_t batch = q.dim(0);
    int64_t queries = q.dim(1);
    int64_t keys = k.dim(1);
    if (options.window > 0) {
        const int64_t w = options.window;
        require(q.dim(1) % w == 0 && q.dim(2) % w == 0, "attention",
                str("the map ", to_string(q.shape()), " is not a multiple of the window ", w));
        require(!options.causal && !options.key_mask && !options.bias && !options.bias_rows, "attention",
                "masks and biases are for global attention");
        queries = q.dim(1) * q.dim(2);
        keys = w * w;
    }
    if (options.key_mask)
        require(options.key_mask.shape() == Shape({batch, keys}) && options.key_mask.dtype() == DType::u8, "attention",
                "the key mask must be u8 [N, Tk], got " + to_string(options.key_mask.shape()));
    if (options.bias)
        require(options.bias.shape() == Shape({batch, heads, queries, keys}), "attention",
                "the bias must be [N, heads, Tq, Tk], got " + to_string(options.bias.shape()));
    require(options.bias_rows.defined() == options.bias_cols.defined(), "attention",
            "bias_rows and bias_cols come together");
    if (options.bias_rows) {
        const Shape& r = options.bias_rows.shape();
        const Shape& c = options.bias_cols.shape();
        require(r.rank() == 4 && c.rank() == 4 && r[0] == batch && c[0] == batch && r[1] == heads && c[1] == heads &&
                    r[2] == queries && c[2] == queries && r[3] * c[3] == keys,
                "attention", "row and column biases do not fit: " + shapes(options.bias_rows, options.bias_cols));
    }

    AttentionArgs args{q,
                       k,
                       v,
                       options.heads,
                       options.scale == 0 ? 1.0F / std::sqrt(static_cast<float>(head_size)) : options.scale,
                       options.window,
                       options.causal,
                       options.key_mask,
                       options.bias,
                       options.bias_rows,
                       options.bias_cols,
                       empty(with_last(q.shape(), v.dim(-1)), q.dtype())};
    if (args.out.numel() == 0) return args.out;
    require(keys > 0, "attention", "there are no keys");
    const double flops = 2.0 * static_cast<double>(batch * queries) * static_cast<double>(keys) *
                         static_cast<double>(q.dim(-1) + v.dim(-1));
    run("attention", device_.kernels().attention, args, args.out, flops);
    return args.out;
}

void Ops::rope_2d_(const Tensor& x, const Tensor& table, int heads, int window) {
    check_rotation(x, table, heads, window);
    if (x.numel() == 0) return;
    run("rope_2d", device_.kernels().rope_2d, RopeArgs{x, table, heads, window}, x,
        3.0 * static_cast<double>(x.numel()));
}

Tensor Ops::layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, float eps, Activation activation,
                       DType type) {
    require(gamma.shape() == Shape({x.dim(-1)}) && beta.shape() == gamma.shape(), "layer_norm",
            "weights do not fit the input: " + shapes(gamma, x));
    Tensor out = empty(x.shape(), type);
    if (out.numel() == 0) return out;
    run("layer_norm", device_.kernels().layer_norm, LayerNormArgs{matrix(x), gamma, beta, eps, activation, matrix(out)},
        out, 8.0 * static_cast<double>(x.numel()));
    return out;
}

std::pair<Tensor, Tensor> Ops::layer_norm_and_sum(const Tensor& x, const Tensor& gamma, const Tensor& beta, float eps,
                                                  const Tensor& added, DType type) {
    require(gamma.shape() == Shape({x.dim(-1)}) && beta.shape() == gamma.shape(), "layer_norm",
            "weights do not fit the input: " + shapes(gamma, x));
    if (added)
        require(repeats_rows(added.shape(), x.shape()), "layer_norm",
                "what is added does not fit the input: " + shapes(added, x));
    if (!added && type == stored_type()) {
        const Tensor norm = layer_norm(x, gamma, beta, eps, Activation::none, type);
        return {norm, norm};
    }
    Tensor out = empty(x.shape(), type);
    Tensor sum = empty(x.shape(), device_.storage_type(context_.precision));
    if (out.numel() > 0)
        run("layer_norm", device_.kernels().layer_norm,
            LayerNormArgs{matrix(x), gamma, beta, eps, Activation::none, matrix(out), added ? matrix(added) : Tensor(),
                          matrix(sum)},
            out, 9.0 * static_cast<double>(x.numel()));
    return {out, sum};
}

Tensor Ops::group_norm(const Tensor& x, int groups, const Tensor& gamma, const Tensor& beta, float eps,
                       Activation activation) {
    require(x.rank() == 4 && groups > 0 && x.dim(3) % groups == 0 && gamma.shape() == Shape({x.dim(3)}) &&
                beta.shape() == gamma.shape(),
            "group_norm",
            str(groups, " groups and weights ", to_string(gamma.shape()), " do not fit ", to_string(x.shape())));
    Tensor out = empty(x.shape(), x.dtype());
    if (out.numel() == 0) return out;
    run("group_norm", device_.kernels().group_norm,
        GroupNormArgs{contiguous(x), gamma, beta, groups, eps, activation, out}, out,
        8.0 * static_cast<double>(x.numel()));
    return out;
}

Tensor Ops::softmax(const Tensor& x) {
    Tensor out = empty(x.shape(), x.dtype());
    if (out.numel() == 0) return out;
    run("softmax", device_.kernels().softmax, SoftmaxArgs{matrix(x), matrix(out)}, out,
        5.0 * static_cast<double>(x.numel()));
    return out;
}

Tensor Ops::conv2d(const Tensor& x, const PackedConv2d& weights, Activation activation, const Tensor& residual) {
    require(x.rank() == 4 && x.dim(3) == weights.in_channels, "conv2d",
            str("the input ", to_string(x.shape()), " must be [N, H, W, ", weights.in_channels, "]"));
    const int64_t height = (x.dim(1) + 2 * weights.padding - weights.kernel_h) / weights.stride + 1;
    const int64_t width = (x.dim(2) + 2 * weights.padding - weights.kernel_w) / weights.stride + 1;
    require(x.dim(1) + 2 * weights.padding >= weights.kernel_h && x.dim(2) + 2 * weights.padding >= weights.kernel_w,
            "conv2d", str("the input ", to_string(x.shape()), " is smaller than the kernel"));
    Tensor out = empty({x.dim(0), height, width, weights.out_channels}, result_type(weights.out_type, residual));
    if (residual)
        require(residual.shape() == out.shape(), "conv2d", "residual and result differ: " + shapes(residual, out));
    if (out.numel() == 0) return out;
    const int64_t taps = weights.in_channels / weights.groups * weights.kernel_h * weights.kernel_w;
    const double flops = 2.0 * static_cast<double>(out.numel()) * static_cast<double>(taps);
    run("conv2d", device_.kernels().conv2d,
        Conv2dArgs{contiguous(x), &weights, activation, residual ? contiguous(cast(residual, out.dtype())) : Tensor(),
                   out},
        out, flops);
    return out;
}

Tensor Ops::conv_transpose_2x2(const Tensor& x, const PackedLinear& weights, Activation activation,
                               const Tensor& residual) {
    require(x.rank() == 4 && x.dim(3) == weights.in_features && weights.out_features % 4 == 0, "conv_transpose_2x2",
            str("the input ", to_string(x.shape()), " must be [N, H, W, ", weights.in_features, "]"));
    Tensor out = empty({x.dim(0), 2 * x.dim(1), 2 * x.dim(2), weights.out_features / 4},
                       result_type(weights.out_type, residual));
    if (residual)
        require(residual.shape() == out.shape(), "conv_transpose_2x2",
                "residual and result differ: " + shapes(residual, out));
    if (out.numel() == 0) return out;
    const double flops = 2.0 * static_cast<double>(out.numel()) * static_cast<double>(weights.in_features);
    run("conv_transpose_2x2", device_.kernels().conv_transpose_2x2,
        ConvTranspose2x2Args{contiguous(x), &weights, activation,
                             residual ? contiguous(cast(residual, out.dtype())) : Tensor(), out},
        out, flops);
    return out;
}

Tensor Ops::resize(const Tensor& x, int64_t height, int64_t width, Interpolation mode, bool antialias) {
    require(x.rank() == 4 && height > 0 && width > 0 && x.dim(1) > 0 && x.dim(2) > 0, "resize",
            str("cannot resize ", to_string(x.shape()), " to ", height, " x ", width));
    Tensor out = empty({x.dim(0), height, width, x.dim(3)}, x.dtype());
    if (out.numel() == 0) return out;
    run("resize", device_.kernels().resize, ResizeArgs{contiguous(x), mode, antialias, out}, out,
        8.0 * static_cast<double>(out.numel()));
    return out;
}

Tensor Ops::resize_and_add(const Tensor& x, const Tensor& added, Interpolation mode) {
    require(x.rank() == 4 && added.rank() == 4 && x.dim(1) > 0 && x.dim(2) > 0 && added.dim(3) == x.dim(3) &&
                (added.dim(0) == x.dim(0) || added.dim(0) == 1),
            "resize_and_add", "shapes do not fit: " + shapes(x, added));
    Tensor out = empty({x.dim(0), added.dim(1), added.dim(2), x.dim(3)}, x.dtype());
    if (out.numel() == 0) return out;
    run("resize", device_.kernels().resize,
        ResizeArgs{contiguous(x), mode, /*antialias=*/false, out, contiguous(cast(added, x.dtype()))}, out,
        9.0 * static_cast<double>(out.numel()));
    return out;
}

Tensor Ops::resize_above(const Tensor& x, int64_t height, int64_t width, float threshold) {
    require(x.rank() == 3 && height > 0 && width > 0 && x.dim(1) > 0 && x.dim(2) > 0, "resize_above",
            str("cannot resize ", to_string(x.shape()), " to ", height, " x ", width));
    Tensor out = empty({x.dim(0), height, width}, DType::u8);
    if (out.numel() == 0) return out;
    run("resize_above", device_.kernels().resize_above, ResizeAboveArgs{contiguous(x), threshold, out}, out,
        8.0 * static_cast<double>(out.numel()));
    return out;
}

Tensor Ops::roi_align(const Tensor& x, const Tensor& boxes, int64_t height, int64_t width, float spatial_scale,
                      int sampling_ratio, bool aligned) {
    require(x.rank() == 4 && boxes.rank() == 2 && boxes.dim(1) == 5, "roi_align",
            "needs [N, H, W, C] and [K, 5], got " + shapes(x, boxes));
    Tensor out = empty({boxes.dim(0), height, width, x.dim(3)}, x.dtype());
    if (out.numel() == 0) return out;
    run("roi_align", device_.kernels().roi_align,
        RoiAlignArgs{contiguous(x), contiguous(boxes), spatial_scale, sampling_ratio, aligned, out}, out,
        32.0 * static_cast<double>(out.numel()));
    return out;
}

Tensor Ops::grid_sample(const Tensor& x, const Tensor& grid) {
    require(x.rank() == 4 && grid.rank() == 3 && grid.dim(0) == x.dim(0) && grid.dim(2) == 2, "grid_sample",
            "needs [N, H, W, C] and [N, K, 2], got " + shapes(x, grid));
    Tensor out = empty({x.dim(0), grid.dim(1), x.dim(3)}, x.dtype());
    if (out.numel() == 0) return out;
    run("grid_sample", device_.kernels().grid_sample, GridSampleArgs{contiguous(x), contiguous(grid), out}, out,
        8.0 * static_cast<double>(out.numel()));
    return out;
}

Tensor Ops::max_pool(const Tensor& x, int kernel, int stride) {
    require(x.rank() == 4 && kernel > 0 && stride > 0 && x.dim(1) >= kernel && x.dim(2) >= kernel, "max_pool",
            str("a ", kernel, " x ", kernel, " window does not fit ", to_string(x.shape())));
    Tensor out =
        empty({x.dim(0), (x.dim(1) - kernel) / stride + 1, (x.dim(2) - kernel) / stride + 1, x.dim(3)}, x.dtype());
    if (out.numel() == 0) return out;
    run("max_pool", device_.kernels().max_pool, MaxPoolArgs{contiguous(x), kernel, stride, out}, out,
        static_cast<double>(out.numel()) * kernel * kernel);
    return out;
}

namespace {
constexpr float kNoLimit = std::numeric_limits<float>::infinity();
}

Tensor Ops::unary(const Tensor& x, Unary function) {
    Tensor out = empty(x.shape(), x.dtype());
    if (out.numel() == 0) return out;
    run("unary", device_.kernels().unary, UnaryArgs{x, function, true, 1, 0, -kNoLimit, kNoLimit, out}, out,
        static_cast<double>(x.numel()));
    return out;
}

Tensor Ops::affine(const Tensor& x, float scale, float shift) {
    Tensor out = empty(x.shape(), x.dtype());
    if (out.numel() == 0) return out;
    run("affine", device_.kernels().unary, UnaryArgs{x, Unary::relu, false, scale, shift, -kNoLimit, kNoLimit, out},
        out, 2.0 * static_cast<double>(x.numel()));
    return out;
}

Tensor Ops::clamp(const Tensor& x, float low, float high) {
    Tensor out = empty(x.shape(), x.dtype());
    if (out.numel() == 0) return out;
    run("clamp", device_.kernels().unary, UnaryArgs{x, Unary::relu, false, 1, 0, low, high, out}, out,
        static_cast<double>(x.numel()));
    return out;
}

Tensor Ops::binary(const Tensor& a, const Tensor& b, Binary function) {
    return binary(a, b, function, wider(a.dtype(), b.dtype()));
}

Tensor Ops::stored_sum(const Tensor& a, const Tensor& b) {
    return binary(a, b, Binary::add, device_.storage_type(context_.precision));
}

Tensor Ops::binary(const Tensor& a, const Tensor& b, Binary function, DType type) {
    const Shape shape = broadcast(a.shape(), b.shape());
    Tensor out = empty(shape, type);
    if (out.numel() == 0) return out;
    run("binary", device_.kernels().binary, BinaryArgs{broadcast_to(a, shape), broadcast_to(b, shape), function, out},
        out, static_cast<double>(out.numel()));
    return out;
}

void Ops::add_(const Tensor& a, const Tensor& b) {
    require(broadcast(a.shape(), b.shape()) == a.shape(), "add_", "shapes do not fit: " + shapes(a, b));
    if (a.numel() == 0) return;
    run("binary", device_.kernels().binary, BinaryArgs{a, broadcast_to(b, a.shape()), Binary::add, a}, a,
        static_cast<double>(a.numel()));
}

Tensor Ops::contiguous(const Tensor& x) {
    if (x.is_dense()) return x;
    Tensor out = empty(x.shape(), x.dtype());
    copy_(out, x);
    return out;
}

Tensor Ops::cast(const Tensor& x, DType type) {
    if (x.dtype() == type) return x;
    Tensor out = empty(x.shape(), type);
    copy_(out, x);
    return out;
}

void Ops::copy_(const Tensor& destination, const Tensor& source) {
    require(destination.shape() == source.shape(), "copy", "shapes differ: " + shapes(destination, source));
    if (source.numel() == 0) return;
    run("copy", device_.kernels().copy, CopyArgs{source, destination}, destination, 0);
}

Tensor Ops::permute(const Tensor& x, const std::vector<int>& order) {
    require(static_cast<int>(order.size()) == x.rank(), "permute", "the order must name every dimension");
    PermuteArgs args{x, {}, {}};
    Shape shape;
    unsigned seen = 0;
    for (size_t i = 0; i < order.size(); ++i) {
        require(order[i] >= 0 && order[i] < x.rank(), "permute", "no such dimension");
        seen |= 1U << static_cast<unsigned>(order[i]);
        args.order[i] = order[i];
        shape.push_back(x.dim(order[i]));
    }
    require(seen == (1U << static_cast<unsigned>(x.rank())) - 1, "permute", "a dimension is named twice");
    args.out = empty(shape, x.dtype());
    if (args.out.numel() > 0) run("permute", device_.kernels().permute, args, args.out, 0);
    return args.out;
}

Tensor Ops::concat(const std::vector<Tensor>& parts, int dim) {
    require(!parts.empty(), "concat", "nothing to join");
    if (parts.size() == 1) return parts[0];
    Shape shape = parts[0].shape();
    if (dim < 0) dim += shape.rank();
    shape[dim] = 0;
    DType type = parts[0].dtype();
    for (const Tensor& part : parts) {
        require(part.rank() == shape.rank(), "concat", "parts differ in rank: " + shapes(parts[0], part));
        type = wider(type, part.dtype());
        for (int i = 0; i < shape.rank(); ++i)
            require(i == dim || part.dim(i) == shape[i], "concat", "shapes differ: " + shapes(parts[0], part));
        shape[dim] += part.dim(dim);
    }
    Tensor out = empty(shape, type);
    if (out.numel() == 0) return out;
    std::vector<Tensor> whole;  // lie in the result as they do in memory
    bool lie_behind = std::all_of(shape.begin(), shape.begin() + dim, [](int64_t size) { return size == 1; });
    for (const Tensor& part : parts) {
        lie_behind = lie_behind && part.dtype() == type && part.is_dense();
        if (part.numel() > 0) whole.push_back(part);
    }
    if (lie_behind) {
        run("concat", device_.kernels().join, JoinArgs{whole, out}, out, 0);
        return out;
    }
    int64_t start = 0;
    for (const Tensor& part : parts) {
        copy_(out.slice(dim, start, part.dim(dim)), part);
        start += part.dim(dim);
    }
    return out;
}

Tensor Ops::pad_bottom_right(const Tensor& x, int64_t height, int64_t width) {
    require(x.rank() == 4 && height >= x.dim(1) && width >= x.dim(2), "pad",
            str("cannot pad ", to_string(x.shape()), " to ", height, " x ", width));
    if (height == x.dim(1) && width == x.dim(2)) return x;
    Tensor out = full({x.dim(0), height, width, x.dim(3)}, 0.0F, x.dtype());
    copy_(out.slice(1, 0, x.dim(1)).slice(2, 0, x.dim(2)), x);
    return out;
}

Tensor Ops::embedding(const Tensor& table, const Tensor& ids) {
    require(table.rank() == 2 && ids.dtype() == DType::i32, "embedding", "needs [V, C] and i32 ids");
    Shape shape = ids.shape();
    shape.push_back(table.dim(1));
    Tensor out = empty(shape);
    if (out.numel() == 0) return out;
    run("embedding", device_.kernels().embedding, EmbeddingArgs{table, contiguous(ids).reshape({-1}), matrix(out)}, out,
        0);
    return out;
}

Tensor Ops::gather_rows(const Tensor& x, const Tensor& ids) {
    require(x.rank() == 3 && ids.rank() == 2 && ids.dtype() == DType::i32 && ids.dim(0) == x.dim(0), "gather_rows",
            "needs [N, T, C] and i32 [N, K], got " + shapes(x, ids));
    Tensor out = empty({x.dim(0), ids.dim(1), x.dim(2)}, x.dtype());
    if (out.numel() == 0) return out;
    run("gather_rows", device_.kernels().gather_rows, GatherRowsArgs{x, contiguous(ids), out}, out, 0);
    return out;
}

std::pair<Tensor, Tensor> Ops::topk(const Tensor& x, int64_t k) {
    require(x.rank() >= 1 && k >= 0 && k <= x.dim(-1), "topk", str("k = ", k, " of ", to_string(x.shape())));
    Tensor values = empty(with_last(x.shape(), k));
    Tensor indices = empty(with_last(x.shape(), k), DType::i32);
    if (values.numel() > 0)
        run("topk", device_.kernels().topk, TopkArgs{matrix(contiguous(x)), matrix(values), matrix(indices)}, values,
            0);
    return {values, indices};
}

Tensor Ops::sine_embed(const Tensor& x, int dim, float temperature, float scale) {
    require(dim > 0 && dim % 2 == 0, "sine_embed", str("the size must be even, got ", dim));
    Shape shape = x.shape();
    shape.push_back(dim);
    Tensor out = empty(shape);
    if (out.numel() == 0) return out;
    run("sine_embed", device_.kernels().sine_embed,
        SineEmbedArgs{contiguous(x).reshape({x.numel()}), dim, temperature, scale, matrix(out)}, out,
        10.0 * static_cast<double>(out.numel()));
    return out;
}

Tensor Ops::resample(const Tensor& x, const Tensor& first, const Tensor& weights, int precision) {
    require(x.rank() == 3 && x.dtype() == DType::u8, "resample", "needs u8 [A, L, B], got " + to_string(x.shape()));
    require(first.rank() == 1 && weights.rank() == 2 && first.dim(0) == weights.dim(0) && precision > 0, "resample",
            "places and weights do not fit: " + shapes(first, weights));
    Tensor out = empty({x.dim(0), first.dim(0), x.dim(2)}, DType::u8);
    if (out.numel() == 0) return out;
    run("resample", device_.kernels().resample, ResampleArgs{contiguous(x), first, weights, precision, out}, out,
        2.0 * static_cast<double>(out.numel() * weights.dim(1)));
    return out;
}

AttentionOptions Ops::box_bias(const Tensor& boxes, const BoxBiasWeights& to_cols, const BoxBiasWeights& to_rows,
                               int64_t height, int64_t width) {
    const int64_t channels = to_cols.hidden_weight.dim(0);
    const int64_t heads = to_cols.weight.dim(0);
    require(boxes.rank() == 3 && boxes.dim(2) == 4 && boxes.dtype() == DType::f32, "box_bias",
            "boxes must be f32 [N, Q, 4], got " + to_string(boxes.shape()));
    for (const BoxBiasWeights* w : {&to_cols, &to_rows})
        require(w->hidden_weight.shape() == Shape({channels, 2}) && w->hidden_bias.shape() == Shape({channels}) &&
                    w->weight.shape() == Shape({heads, channels}) && w->bias.shape() == Shape({heads}),
                "box_bias", "the layers do not fit: " + shapes(w->hidden_weight, w->weight));
    AttentionOptions bias;
    bias.bias_cols = empty({boxes.dim(0), heads, 1 + boxes.dim(1), width});
    bias.bias_rows = empty({boxes.dim(0), heads, 1 + boxes.dim(1), height});
    if (bias.bias_cols.numel() + bias.bias_rows.numel() == 0) return bias;
    run("box_bias", device_.kernels().box_bias, BoxBiasArgs{boxes, to_cols, to_rows, bias.bias_cols, bias.bias_rows},
        bias.bias_cols,
        2.0 * static_cast<double>(boxes.dim(0) * boxes.dim(1) * (height + width) * channels * (2 + heads)));
    return bias;
}

std::vector<Tensor> Ops::stage(const std::string& name, const std::vector<Tensor>& inputs,
                               const Device::StageBody& body) {
    if (profiler_ == nullptr) return trace_ ? body(inputs) : device_.run_stage(stages_, name, inputs, body);
    device_.synchronize();
    const auto start = std::chrono::steady_clock::now();
    std::vector<Tensor> outputs = body(inputs);  // uncaptured, so that each operator is seen
    device_.synchronize();
    profiler_->record_stage(name, seconds_since(start));
    return outputs;
}

std::vector<Tensor> Ops::stage_aside(const std::string& name, const std::vector<Tensor>& host_inputs,
                                     const Device::StageBody& body) {
    if (profiler_ == nullptr && !trace_) return device_.run_stage_aside(stages_, name, host_inputs, body);
    std::vector<Tensor> inputs;
    for (const Tensor& input : host_inputs) inputs.push_back(upload(input));
    return stage(name, inputs, body);
}

}  // namespace sam3
