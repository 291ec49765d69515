#include "runtime/cuda/elements.cuh"
#include "runtime/cuda/few_tokens.h"
#include "runtime/cuda/gemm.h"
#include "runtime/cuda/weights.h"

namespace sam3::cuda {

namespace {

template <typename T, bool kVector>
__global__ void finish_kernel(T* out, int64_t out_stride, const T* residual, int64_t residual_stride, int64_t rows,
                              int columns, Activation activation) {
    constexpr int kEach = kVector ? 4 : 1;
    const int across = columns / kEach;
    const int64_t item = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (item >= rows * across) return;
    const int64_t row = item / across;
    const int column = static_cast<int>(item - row * across) * kEach;
    T* const p = out + row * out_stride + column;
    const T* const q = residual == nullptr ? nullptr : residual + row * residual_stride + column;
    if constexpr (kVector) {
        float4 v = load4(p);
        v = {activate(v.x, activation), activate(v.y, activation), activate(v.z, activation),
             activate(v.w, activation)};
        if (q != nullptr) {
            const float4 r = load4(q);
            v = {v.x + r.x, v.y + r.y, v.z + r.z, v.w + r.w};
        }
        store4(p, v);
    } else {
        const float v = activate(to_float(*p), activation);
        *p = from_float<T>(q == nullptr ? v : v + to_float(*q));
    }
}

bool by_fours(const Tensor& x) {
    return !x || (x.dim(-1) % 4 == 0 && x.row_stride() % 4 == 0 &&
                  reinterpret_cast<uintptr_t>(x.raw()) % (4 * size_of(x.dtype())) == 0);
}

// out = activation(out) + residual, in place; both [rows, C] with uniform rows.
void finish_rows(const ExecContext& context, const Tensor& out, Activation activation, const Tensor& residual) {
    if (activation == Activation::none && !residual) return;
    launch(context, "linear", [&](cudaStream_t stream) {
        for_float_type(out.dtype(), [&](auto type) {
            using T = typename decltype(type)::type;
            const bool fours = by_fours(out) && by_fours(residual);
            const int64_t items = out.numel() / (fours ? 4 : 1);
            constexpr int kThreads = 256;
            const auto grid = static_cast<unsigned>(blocks_for(items, kThreads));
            const T* more = residual ? residual.data<T>() : nullptr;
            const int64_t more_stride = residual ? residual.row_stride() : 0;
            const auto columns = static_cast<int>(out.dim(-1));
            if (fours)
                finish_kernel<T, true><<<grid, kThreads, 0, stream>>>(out.data<T>(), out.row_stride(), more,
                                                                      more_stride, out.rows(), columns, activation);
            else
                finish_kernel<T, false><<<grid, kThreads, 0, stream>>>(out.data<T>(), out.row_stride(), more,
                                                                       more_stride, out.rows(), columns, activation);
        });
    });
}

// What the library does on its way out, or none. `exact`: of a product in f32.
Activation fused(Activation wanted, bool exact) {
    if (wanted == Activation::relu || wanted == Activation::gelu_tanh) return wanted;
    // Its GELU is the tanh form: off by up to 5e-4, which the rounding of bf16 and tf32 hides (docs/performance.md).
    return wanted == Activation::gelu && !exact ? Activation::gelu_tanh : Activation::none;
}

// Whether a product can add the residual itself: it would do so before an activation, and ours comes after it. Rows of
// stride 0 it does not know.
bool adds_inside(Activation activation, const Tensor& residual) {
    return activation == Activation::none && residual && (residual.dim(0) == 1 || residual.row_stride() > 0);
}

int64_t row_stride_of(const Tensor& x) { return x.dim(0) == 1 ? x.dim(1) : x.row_stride(); }

// All of a product but its rows; `residual`: what it adds, or undefined.
Gemm product_of(const CudaLinear& weights, const Tensor& residual, const Tensor& out, const RopeArgs& rotation) {
    Gemm gemm;
    gemm.m = out.dim(0);
    gemm.n = weights.out_features;
    gemm.k = gemm.w_stride = weights.in_features;
    gemm.in_type = weights.weight.dtype();
    gemm.out_type = out.dtype();
    gemm.w = weights.weight.raw();
    gemm.bias = weights.bias_for(out.dtype());
    gemm.exact_bias = weights.bias ? weights.bias.data<float>() : nullptr;
    gemm.out = out.raw();
    gemm.out_stride = row_stride_of(out);
    if (residual) {
        gemm.residual = residual.raw();
        gemm.residual_stride = row_stride_of(residual);
    }
    if (rotation.x && own_product_rotates(rotation)) gemm.rotation = &rotation;
    return gemm;
}

// Rows are coded on the way. Results are bf16, or f16 where they are added to a sum of that type.
void multiply_codes(const ExecContext& context, const Tensor& x, const CudaLinear& weights, Activation activation,
                    const Tensor& residual, const Tensor& out, const RopeArgs& rotation) {
    const bool sum = out.dtype() == DType::f16 && adds_inside(activation, residual);
    const bool direct = sum || out.dtype() == DType::bf16;
    const Tensor result = direct ? out : new_tensor(context, out.shape(), DType::bf16);
    const Tensor codes = new_tensor(context, {x.dim(0), weights.in_features}, DType::u8);
    const Tensor scales = new_tensor(context, {x.dim(0)}, DType::f32);
    code_rows(context, x, codes, scales);
    Gemm gemm = product_of(weights, sum ? residual : Tensor(), result, rotation);
    gemm.x = codes.raw();
    gemm.x_stride = gemm.k;
    gemm.x_scales = scales.data<float>();
    gemm.w_scales = weights.scales.data<float>();
    gemm.gelu = fused(activation, /*exact=*/false) == Activation::gelu_tanh;
    if (!own_product_takes(context, gemm)) fail("linear: fp8 does not take the strides of ", to_string(out.shape()));
    run_gemm(context, gemm);
    if (!direct) copy(context, CopyArgs{result, out});
    if (rotation.x && gemm.rotation == nullptr) rope_2d(context, rotation);
    if (!sum) finish_rows(context, out, gemm.gelu ? Activation::none : activation, residual);
}

}  // namespace

void multiply_rows(const ExecContext& context, const Tensor& x, const CudaLinear& weights, Activation activation,
                   const Tensor& residual, const Tensor& out, const RopeArgs& rotation) {
    if (weights.scales) return multiply_codes(context, x, weights, activation, residual, out, rotation);
    const bool sum = out.dtype() == DType::f16;
    if (!sum && !rotation.x && few_rows_take(context, x, weights))
        return multiply_few_rows(context, x, weights, activation, residual, out);
    const Tensor input = as_type(context, x, weights.weight.dtype());
    const bool fast = context.precision != Precision::f32;
    const Activation inside = fused(activation, !fast && out.dtype() == DType::f32);
    const bool add_inside = adds_inside(activation, residual);
    Gemm gemm = product_of(weights, add_inside ? residual : Tensor(), out, rotation);
    gemm.relu = inside == Activation::relu;
    gemm.gelu = inside == Activation::gelu_tanh;
    gemm.fast = fast;
    gemm.x = input.raw();
    gemm.x_stride = row_stride_of(input);
    const bool own = (sum || gemm.rotation != nullptr) && own_product_takes(context, gemm);
    if (!own && sum) {
        const Tensor wide = new_tensor(context, out.shape(), DType::f32);
        multiply_rows(context, x, weights, activation, as_type(context, residual, DType::f32), wide);
        return copy(context, CopyArgs{wide, out});
    }
    if (!own) gemm.rotation = nullptr;
    run_gemm(context, gemm);
    if (rotation.x && gemm.rotation == nullptr) rope_2d(context, rotation);
    finish_rows(context, out, inside == Activation::none ? activation : Activation::none,
                add_inside ? Tensor() : residual);
}

bool multiply_into_pixels(const ExecContext& context, const Tensor& x, const CudaLinear& weights, Activation activation,
                          const Tensor& out) {
    constexpr int64_t kFewest = 1024;  // rows: less would leave most of the GPU idle
    const Activation inside = fused(activation, /*exact=*/out.dtype() == DType::f32);
    const bool finishes = activation == Activation::none || inside == Activation::gelu_tanh;
    const int64_t rows = x.numel() / weights.in_features;
    if (!finishes || rows < kFewest || !x.is_dense()) return false;
    Gemm gemm = product_of(weights, {}, out, {});
    gemm.m = rows;
    gemm.width = x.dim(2);
    gemm.gelu = inside == Activation::gelu_tanh;
    gemm.x = x.raw();
    gemm.x_stride = gemm.k;
    gemm.out_stride = out.dim(3);
    if (!own_product_takes(context, gemm)) return false;
    const Tensor input = as_type(context, x, gemm.in_type);
    gemm.x = input.raw();
    run_gemm(context, gemm);
    return true;
}

void linear(const ExecContext& context, const LinearArgs& args) {
    if (device_of(context).few_tokens().take(context, args)) return;
    multiply_rows(context, args.x, static_cast<const CudaLinear&>(*args.weights), args.activation, args.residual,
                  args.out, args.rotation);
}

Tensor upload_rows(CudaDevice& device, const std::vector<Tensor>& parts, DType type) {
    int64_t rows = 0;
    for (const Tensor& part : parts) rows += part.dim(0);
    const ExecContext context{device, 1, Precision::f32};
    const int64_t columns = parts.front().numel() / parts.front().dim(0);
    Tensor whole = new_tensor(context, {rows, columns}, DType::f32);
    int64_t at = 0;
    for (const Tensor& part : parts) {
        device.copy_from_host(whole.slice(0, at, part.dim(0)).raw(), part.raw(),
                              static_cast<size_t>(part.numel()) * sizeof(float));
        at += part.dim(0);
    }
    return as_type(context, whole, type);
}

namespace {

std::vector<Tensor> biases_of(const LinearSource& source) {
    bool any = false;
    std::vector<Tensor> parts;
    for (size_t i = 0; i < source.weights.size(); ++i) {
        const Tensor given = i < source.biases.size() ? source.biases[i] : Tensor();
        any = any || given;
        const int64_t rows = source.weights[i].values.dim(0);
        Tensor part = Tensor::host({rows, 1});
        for (int64_t r = 0; r < rows; ++r) part.data<float>()[r] = given ? given.data<float>()[r] : 0.0F;
        parts.push_back(part);
    }
    return any ? parts : std::vector<Tensor>();
}

}  // namespace

std::shared_ptr<const PackedLinear> CudaDevice::pack_linear(const LinearSource& source, Precision precision) {
    const auto held = lock();
    auto packed = std::make_shared<CudaLinear>();
    packed->out_type = storage_type(precision);
    std::vector<Tensor> weights;
    for (const LayerWeights& part : source.weights) {
        weights.push_back(part.decoded());
        packed->out_features += weights.back().dim(0);
    }
    packed->in_features = weights.front().numel() / weights.front().dim(0);
    if (precision == Precision::fp8 && codes_take(packed->in_features, packed->out_features)) {
        const ExecContext context{*this, 1, Precision::f32};
        packed->weight = new_tensor(context, {packed->out_features, packed->in_features}, DType::u8);
        packed->scales = new_tensor(context, {packed->out_features}, DType::f32);
        code_rows(context, upload_rows(*this, weights, DType::f32), packed->weight, packed->scales);
    } else {
        packed->weight = upload_rows(*this, weights, packed->out_type);
    }
    if (const std::vector<Tensor> biases = biases_of(source); !biases.empty()) {
        packed->bias = upload_rows(*this, biases, DType::f32);
        packed->bias_bf16 = upload_rows(*this, biases, DType::bf16);
    }
    synchronize();  // kernels that start early read weights at once
    return packed;
}

}  // namespace sam3::cuda
