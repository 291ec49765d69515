#include "runtime/cuda/attention.cuh"
#include "runtime/cuda/few_tokens.h"
#include "runtime/cuda/mma.cuh"

#include <cmath>
#include <limits>

namespace sam3::cuda {

namespace {

constexpr int kWarps = 4;
constexpr int kMostValues = 8;  // of a lane: values of up to 256

// A warp a query: lanes take 32 keys at a time for the scores, then the value's dimensions for the sum.
template <typename T, typename Out>
__global__ void attention_kernel(const T* q, const T* k, const T* v, Out* out, TokenMap q_map, TokenMap k_map,
                                 TokenMap v_map, TokenMap out_map, AttentionShape shape, ScoreTerms terms) {
    extern __shared__ float queries[];
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int query = blockIdx.x * kWarps + warp;
    const int head = blockIdx.y;
    const int unit = blockIdx.z;
    const int image = unit / shape.per_image;
    if (query >= shape.queries) return;
    float* const own = queries + warp * shape.head_size;
    const T* const q_row = q + q_map.origin(unit, head) + q_map.token(query);
    for (int d = lane; d < shape.head_size; d += 32) own[d] = to_float(q_row[d]) * shape.scale;
    __syncwarp();

    const int64_t k_origin = k_map.origin(unit, head);
    const int64_t v_origin = v_map.origin(unit, head);
    constexpr float kHidden = -INFINITY;
    float highest = kHidden;
    float total = 0;
    float sums[kMostValues] = {};
    for (int first = 0; first < shape.keys; first += 32) {
        const int key = first + lane;
        float score = kHidden;
        if (key < shape.keys && !terms.hidden(image, query, key)) {
            const T* const k_row = k + k_origin + k_map.token(key);
            float dot = 0;
            for (int d = 0; d < shape.head_size; ++d) dot += own[d] * to_float(k_row[d]);
            score = dot + terms.added(image, head, query, key);
        }
        const float higher = fmaxf(highest, warp_max(score));
        if (higher == kHidden) continue;
        const float keep = expf(highest - higher);
        const float weight = expf(score - higher);
        highest = higher;
        total = total * keep + warp_sum(weight);
#pragma unroll
        for (int i = 0; i < kMostValues; ++i) sums[i] *= keep;
        const int count = min(32, shape.keys - first);
        for (int j = 0; j < count; ++j) {
            const float w = __shfl_sync(0xffffffffU, weight, j);
            const T* const v_row = v + v_origin + v_map.token(first + j);
#pragma unroll
            for (int i = 0; i < kMostValues; ++i)
                if (lane + 32 * i < shape.value_size) sums[i] += w * to_float(v_row[lane + 32 * i]);
        }
    }
    Out* const o_row = out + out_map.origin(unit, head) + out_map.token(query);
#pragma unroll
    for (int i = 0; i < kMostValues; ++i)
        if (lane + 32 * i < shape.value_size)
            o_row[lane + 32 * i] = from_float<Out>(total > 0 ? sums[i] / total : 0.0F);
}

// Joins the parts of split rows, a warp a row.
template <typename Out>
__global__ void join_kernel(const float* parts, const float2* states, Out* out, TokenMap out_map, AttentionShape shape,
                            int splits, int64_t rows) {
    const int64_t index = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
    const int lane = threadIdx.x % 32;
    if (index >= rows) return;
    const int row = static_cast<int>(index % shape.queries);
    const int head = static_cast<int>(index / shape.queries % shape.heads);
    const int unit = static_cast<int>(index / shape.queries / shape.heads);
    // A lane has the state of one part, so that none is waited for alone.
    const float2* const own = states + index * splits;
    float top = -INFINITY;
    for (int i = lane; i < splits; i += 32) top = fmaxf(top, own[i].x);
    top = warp_max(top);
    const float base = top == -INFINITY ? 0.0F : top;
    float total = 0;
    for (int i = lane; i < splits; i += 32) total += exp2_fast(own[i].x - base) * own[i].y;
    total = warp_sum(total);
    const float factor = total > 0 ? 1.0F / total : 0.0F;
    Out* const to = out + out_map.origin(unit, head) + out_map.token(row);
    for (int d = lane; d < (shape.value_size + 31) / 32 * 32; d += 32) {
        const int column = min(d, shape.value_size - 1);
        float sum = 0;
        for (int first = 0; first < splits; first += 32) {
            const bool there = first + lane < splits;
            const float weight = there ? exp2_fast(own[first + lane].x - base) * own[first + lane].y : 0.0F;
            const float* const from = parts + (index * splits + first) * shape.value_size + column;
            const int count = min(32, splits - first);
#pragma unroll 8
            for (int i = 0; i < count; ++i) sum += __shfl_sync(0xffffffffU, weight, i) * from[i * shape.value_size];
        }
        if (d < shape.value_size) to[d] = from_float<Out>(sum * factor);
    }
}

ScoreTerms terms_of(const ExecContext& context, const AttentionArgs& args, std::vector<Tensor>& kept) {
    ScoreTerms terms;
    terms.causal = args.causal;
    if (args.key_mask) {
        terms.key_mask = args.key_mask.data<uint8_t>();
        terms.mask_batch = args.key_mask.stride(0);
    }
    const auto add = [&](const Tensor& bias, const float*& data, int64_t& batch, int64_t& head, int64_t& query) {
        if (!bias) return;
        kept.push_back(as_type(context, bias, DType::f32));
        data = kept.back().data<float>();
        batch = kept.back().stride(0);
        head = kept.back().stride(1);
        query = kept.back().stride(2);
    };
    add(args.bias, terms.bias, terms.bias_batch, terms.bias_head, terms.bias_query);
    add(args.bias_rows, terms.rows, terms.rows_batch, terms.rows_head, terms.rows_query);
    add(args.bias_cols, terms.cols, terms.cols_batch, terms.cols_head, terms.cols_query);
    if (args.bias_cols) terms.grid_width = static_cast<int>(args.bias_cols.dim(3));
    return terms;
}

AttentionShape shape_of(const AttentionArgs& args) {
    const int w = args.window;
    AttentionShape shape;
    shape.heads = args.heads;
    shape.per_image = w > 0 ? static_cast<int>(args.q.dim(1) / w * (args.q.dim(2) / w)) : 1;
    shape.units = static_cast<int>(args.q.dim(0)) * shape.per_image;
    shape.queries = w > 0 ? w * w : static_cast<int>(args.q.dim(1));
    shape.keys = w > 0 ? w * w : static_cast<int>(args.k.dim(1));
    shape.head_size = static_cast<int>(args.q.dim(-1)) / args.heads;
    shape.value_size = static_cast<int>(args.v.dim(-1)) / args.heads;
    shape.scale = args.scale;
    return shape;
}

}  // namespace

SplitRows::SplitRows(const ExecContext& context, const AttentionShape& shape, int count)
    : splits(count),
      sums(new_tensor(context, {shape.units, shape.heads, shape.queries, count, shape.value_size}, DType::f32)),
      states(new_tensor(context, {shape.units, shape.heads, shape.queries, count, 2}, DType::f32)) {}

void join_rows(const ExecContext& context, const SplitRows& parts, const AttentionShape& shape, const TokenMap& out_map,
               const Tensor& out) {
    launch(context, "attention", [&](cudaStream_t stream) {
        for_float_type(out.dtype(), [&](auto type) {
            using T = typename decltype(type)::type;
            constexpr int kThreads = 128;
            const int64_t rows = static_cast<int64_t>(shape.units) * shape.heads * shape.queries;
            join_kernel<T><<<static_cast<unsigned>(blocks_for(rows * 32, kThreads)), kThreads, 0, stream>>>(
                parts.sums.data<float>(), static_cast<const float2*>(parts.states.raw()), out.data<T>(), out_map, shape,
                parts.splits, rows);
        });
    });
}

TokenMap token_map(const Tensor& x, int heads, int window) {
    TokenMap map;
    map.batch = x.stride(0);
    map.head = static_cast<int>(x.dim(-1)) / heads;
    map.window = window;
    if (window == 0) {
        map.inner = x.stride(1);
        return map;
    }
    map.outer = x.stride(1);
    map.inner = x.stride(2);
    map.across = static_cast<int>(x.dim(2)) / window;
    map.units = static_cast<int>(x.dim(1)) / window * map.across;
    map.magic = static_cast<unsigned>(((uint64_t{1} << 32) + static_cast<unsigned>(window) - 1) /
                                      static_cast<unsigned>(window));
    return map;
}

void attention(const ExecContext& context, const AttentionArgs& args) {
    if (device_of(context).few_tokens().take(context, args)) return;
    const AttentionShape shape = shape_of(args);
    if (args.window > 0 && shape.keys >= 1 << 16)
        fail("attention on the GPU takes windows below 256, found ", args.window);
    std::vector<Tensor> kept;
    const ScoreTerms terms = terms_of(context, args, kept);
    const bool exact = context.precision == Precision::f32 && args.q.dtype() == DType::f32;
    if (!exact) {
        const Tensor q = as_type(context, args.q, DType::bf16);
        const Tensor k = as_type(context, args.k, DType::bf16);
        const Tensor v = as_type(context, args.v, DType::bf16);
        if (mma_takes(shape, q, k, v)) {
            const auto attend = few_keys_take(shape, terms, args.window)               ? attention_few_keys
                                : few_queries_take(context, shape, terms, args.window) ? attention_few_queries
                                : wgmma_takes(context, shape, terms, args.window)      ? attention_wgmma
                                                                                       : attention_mma;
            return attend(context, args, shape, terms, q, k, v);
        }
    }
    if (shape.value_size > 32 * kMostValues)
        fail("attention on the GPU takes heads of up to ", 32 * kMostValues, ", found ", shape.value_size);
    const Tensor k = as_type(context, args.k, args.q.dtype());
    const Tensor v = as_type(context, args.v, args.q.dtype());
    launch(context, "attention", [&](cudaStream_t stream) {
        for_float_type(args.q.dtype(), [&](auto type) {
            using T = typename decltype(type)::type;
            const dim3 grid(static_cast<unsigned>(blocks_for(shape.queries, kWarps)),
                            static_cast<unsigned>(shape.heads), static_cast<unsigned>(shape.units));
            const size_t shared = static_cast<size_t>(kWarps * shape.head_size) * sizeof(float);
            attention_kernel<T, T><<<grid, 32 * kWarps, shared, stream>>>(
                args.q.data<T>(), k.data<T>(), v.data<T>(), args.out.data<T>(),
                token_map(args.q, args.heads, args.window), token_map(k, args.heads, args.window),
                token_map(v, args.heads, args.window), token_map(args.out, args.heads, args.window), shape, terms);
        });
    });
}

}  // namespace sam3::cuda
