#pragma once

#include "runtime/tensor.h"

#include <memory>
#include <string>
#include <vector>

// What a device implements: one function per operator, in a table. Arguments arrive checked by Ops: shapes agree,
// types are as stated, outputs are allocated and dense unless said otherwise. Inputs may be strided views
// (last dimension contiguous). Tensors are f32 unless said otherwise. A device whose storage_type() is a half type gets
// those too: results have the type of the weights' layer, of the residual or of the input (Ops decides, ops.cpp).
namespace sam3 {

enum class Activation { none, relu, gelu, gelu_tanh, sigmoid, silu };
enum class Unary { relu, gelu, sigmoid, tanh, silu, exp, log, sqrt, sin, cos, abs, neg, inverse_sigmoid, signed_log2 };
enum class Binary { add, sub, mul, div, min, max };
enum class Interpolation { nearest, bilinear };
enum class Precision { f32, bf16, int8, fp8 };

const char* name_of(Precision precision);  // "f32"
// Fails naming those that there are.
Precision precision_named(const std::string& name);

struct ExecContext {
    Device& device;
    int threads = 1;
    Precision precision = Precision::f32;  // of products of f32 tensors, at least; sums are f32
};

// Weights in the form that the device multiplies fastest; made once at load by Device::pack_*.
struct PackedLinear {
    int64_t in_features = 0;
    int64_t out_features = 0;
    DType out_type = DType::f32;  // of results, unless a residual says otherwise
    virtual ~PackedLinear() = default;
};
struct PackedConv2d {
    int64_t in_channels = 0;
    int64_t out_channels = 0;
    int kernel_h = 1, kernel_w = 1, stride = 1, padding = 0, groups = 1;
    DType out_type = DType::f32;
    virtual ~PackedConv2d() = default;
};

struct RopeArgs {  // rotates pairs (2i, 2i+1) of every head, in place
    Tensor x;      // [N, T, heads*D]; with window: [N, H, W, heads*D]
    Tensor table;  // [P, D/2, 2]: cos, sin; position of token t is t mod P (inside its window)
    int heads = 1;
    int window = 0;
};
struct LinearArgs {  // out = activation(x * w^T + bias) + residual
    Tensor x;        // [rows, in], rows may be strided
    const PackedLinear* weights;
    Activation activation;
    Tensor residual;      // [rows, out] or undefined; may be strided; may be the same memory as out
    Tensor out;           // [rows, out], rows may be strided
    RopeArgs rotation{};  // at last, of a view of the first columns of out; where Device::rotates_products()
};
struct MatmulArgs {  // out = alpha * a * b + offsets
    Tensor a;        // [B, M, K]
    Tensor b;        // [B, K, N], or [B, N, K] when transpose_b; B may be expanded (stride 0)
    bool transpose_b;
    float alpha;
    Tensor offsets;  // of rows, [B, M, 1], or undefined
    Tensor out;      // [B, M, N]
};
struct AttentionArgs {  // out = softmax(scale * q k^T + bias, masked) v, per head
    Tensor q, k, v;     // [N, Tq, heads*D], [N, Tk, heads*D], [N, Tk, heads*Dv];
                        // with window: [N, H, W, heads*D], H and W multiples of window
    int heads;
    float scale;
    int window;        // 0: global; otherwise tokens attend inside window x window tiles only
    bool causal;       // query t sees keys <= t
    Tensor key_mask;   // u8 [N, Tk], 0 = ignored key; or undefined
    Tensor bias;       // [N, heads, Tq, Tk]; or undefined; N may be expanded
    Tensor bias_rows;  // with bias_cols: keys form a grid [Kh, Kw] (Tk = Kh*Kw) and
    Tensor bias_cols;  //   bias(q, kh, kw) = bias_rows[n, h, q, kh] + bias_cols[n, h, q, kw]
    Tensor out;        // like q, with Dv for D
};
struct LayerNormArgs {   // over the last dimension; out may have another type than x
    Tensor x;            // [rows, C]
    Tensor gamma, beta;  // [C]
    float eps;
    Activation activation;
    Tensor out;
    Tensor added{};  // [R, C], repeated for the rows (a multiple of R), of any float type; or undefined
    Tensor sum{};    // out + added or out alone, of any float type, dense; then without activation
};
struct GroupNormArgs {  // x [N, H, W, C], statistics over H, W and C / groups
    Tensor x, gamma, beta;
    int groups;
    float eps;
    Activation activation;
    Tensor out;
};
struct SoftmaxArgs {  // over the last dimension
    Tensor x, out;    // [rows, C]
};
struct Conv2dArgs {  // x [N, H, W, Cin] -> out [N, Ho, Wo, Cout]
    Tensor x;
    const PackedConv2d* weights;
    Activation activation;
    Tensor residual;  // like out, added after the activation; or undefined
    Tensor out;
};
struct ConvTranspose2x2Args {  // stride 2, kernel 2: x [N, H, W, Cin] -> out [N, 2H, 2W, Cout]
    Tensor x;
    const PackedLinear* weights;  // out_features = 4 * Cout, ordered [dy, dx, cout]
    Activation activation;
    Tensor residual;  // like out or undefined, added after the activation
    Tensor out;
};
struct ResizeArgs {  // x [N, H, W, C] -> out [N, Ho, Wo, C], align_corners = false
    Tensor x;
    Interpolation mode;
    bool antialias;  // bilinear only, as torch's interpolate(antialias=True)
    Tensor out;
    Tensor added{};  // [N, Ho, Wo, C] or [1, Ho, Wo, C], added to every map that was resized; or undefined
};
struct ResizeAboveArgs {  // x [N, H, W] -> out u8 [N, Ho, Wo]: whether the value, bilinearly resized, is above
    Tensor x;
    float threshold;
    Tensor out;
};
struct RoiAlignArgs {  // as torchvision.ops.roi_align
    Tensor x;          // [N, H, W, C]
    Tensor boxes;      // [K, 5]: batch index, x0, y0, x1, y1
    float spatial_scale;
    int sampling_ratio;  // <= 0: adaptive
    bool aligned;
    Tensor out;  // [K, Ho, Wo, C]
};
struct GridSampleArgs {  // bilinear, zero padding, align_corners = false
    Tensor x;            // [N, H, W, C]
    Tensor grid;         // [N, K, 2]: x, y in [-1, 1]
    Tensor out;          // [N, K, C]
};
struct MaxPoolArgs {  // x [N, H, W, C], no padding
    Tensor x;
    int kernel, stride;
    Tensor out;
};
struct UnaryArgs {  // out = f(scale * x + shift), then clamped to [low, high]
    Tensor x;
    Unary function;
    bool apply_function;  // false: only the affine part
    float scale, shift;
    float low, high;
    Tensor out;
};
struct BinaryArgs {  // a and b broadcast to the shape of out by Ops: any stride may be 0, the last one too
    Tensor a, b;
    Binary function;
    Tensor out;
};
// What is left to do for a layer norm's sum by a device that does not do it at once.
inline BinaryArgs sum_of(const LayerNormArgs& norm) {
    const int64_t repeats = norm.sum.dim(0) / norm.added.dim(0);
    const Shape shape{repeats, norm.added.dim(0), norm.added.dim(1)};
    return {norm.out.reshape(shape), norm.added.unsqueeze(0).expand(0, repeats), Binary::add, norm.sum.reshape(shape)};
}
// The same for the offsets of a product.
inline BinaryArgs sum_of(const MatmulArgs& product) {
    return {product.out, product.offsets.expand(2, product.out.dim(2)), Binary::add, product.out};
}
struct CopyArgs {  // same shape; strided on either side; converts between f32, f16, bf16, i32, u8
    Tensor x, out;
};
struct JoinArgs {               // out is the parts, one behind the other
    std::vector<Tensor> parts;  // dense and not empty, of out's type
    Tensor out;
};
struct PermuteArgs {  // out dimension i is x dimension order[i]
    Tensor x;
    int order[Shape::kMaxRank];
    Tensor out;
};
struct FillArgs {
    Tensor out;  // may be strided
    float value;
};
struct EmbeddingArgs {  // rows of a table
    Tensor table;       // [V, C]
    Tensor ids;         // i32 [rows]
    Tensor out;         // [rows, C]
};
struct GatherRowsArgs {  // out[n, k] = x[n, ids[n, k]]
    Tensor x;            // [N, T, C]
    Tensor ids;          // i32 [N, K]
    Tensor out;          // [N, K, C]
};
struct TopkArgs {    // largest first along the last dimension; ties: lowest index first
    Tensor x;        // [rows, C]
    Tensor values;   // [rows, k]
    Tensor indices;  // i32 [rows, k]
};
struct SineEmbedArgs {  // DETR's sine encoding of scalars:
    Tensor x;           // [rows]; out[r, 2i] = sin(scale*x/t^(2i/dim)), out[r, 2i+1] = cos(same)
    int dim;            // even
    float temperature, scale;
    Tensor out;  // [rows, dim]
};
struct ResampleArgs {  // out[a, i, b] = sum over j of weights[i, j] * x[a, first[i] + j, b], rounded to a byte
    Tensor x;          // u8 [A, L, B]
    Tensor first;      // i32 [I]
    Tensor weights;    // i32 [I, J]; 0 where first[i] + j is no place of x
    int precision;     // fractional bits of a weight, at least 1
    Tensor out;        // u8 [A, I, B]
};
struct BoxBiasWeights {                 // a linear layer, ReLU, another one; dense
    Tensor hidden_weight, hidden_bias;  // [C, 2], [C]
    Tensor weight, bias;                // [heads, C], [heads]
};
// How much boxes draw a grid's columns and rows, as a function of the distances to two of their edges (arXiv
// 2308.01904); for the columns, K of them, with a box from x0 to x1:
// out(q, k) = weights(f(k / K - x0), f(k / K - x1)), f(d) = sign(d) log2(|8 d| + 1) / log2(8)
struct BoxBiasArgs {
    Tensor boxes;                     // [N, Q, 4]: cx, cy, w, h
    BoxBiasWeights to_cols, to_rows;  // of the same sizes
    Tensor cols, rows;  // out: [N, heads, 1 + Q, W or H]; the first row belongs to a token without a box: 0
};

#define SAM3_FOR_EACH_KERNEL(X)                 \
    X(linear, LinearArgs)                       \
    X(matmul, MatmulArgs)                       \
    X(attention, AttentionArgs)                 \
    X(rope_2d, RopeArgs)                        \
    X(layer_norm, LayerNormArgs)                \
    X(group_norm, GroupNormArgs)                \
    X(softmax, SoftmaxArgs)                     \
    X(conv2d, Conv2dArgs)                       \
    X(conv_transpose_2x2, ConvTranspose2x2Args) \
    X(resize, ResizeArgs)                       \
    X(resize_above, ResizeAboveArgs)            \
    X(roi_align, RoiAlignArgs)                  \
    X(grid_sample, GridSampleArgs)              \
    X(max_pool, MaxPoolArgs)                    \
    X(unary, UnaryArgs)                         \
    X(binary, BinaryArgs)                       \
    X(copy, CopyArgs)                           \
    X(join, JoinArgs)                           \
    X(permute, PermuteArgs)                     \
    X(fill, FillArgs)                           \
    X(embedding, EmbeddingArgs)                 \
    X(gather_rows, GatherRowsArgs)              \
    X(topk, TopkArgs)                           \
    X(sine_embed, SineEmbedArgs)                \
    X(resample, ResampleArgs)                   \
    X(box_bias, BoxBiasArgs)

struct KernelTable {
#define SAM3_KERNEL(name, Args) void (*name)(const ExecContext&, const Args&) = nullptr;
    SAM3_FOR_EACH_KERNEL(SAM3_KERNEL)
#undef SAM3_KERNEL

    std::vector<std::string> missing() const;  // names of operators that the device does not have
};

}  // namespace sam3
