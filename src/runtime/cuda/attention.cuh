#pragma once

#include "runtime/cuda/elements.cuh"
#include "runtime/cuda/kernels.h"

// What the attention kernels share: where the tokens of a head are, and what is added to a score.
namespace sam3::cuda {

// Tokens of a tensor [N, T, heads*D], or of the windows of [N, H, W, heads*D]. A unit is one window of one image.
struct TokenMap {
    int64_t batch = 0;   // from image to image
    int64_t outer = 0;   // from row to row of a window
    int64_t inner = 0;   // from token to token
    int head = 0;        // from head to head
    int window = 0;      // 0: no windows
    unsigned magic = 0;  // ceil(2^32 / window): division by multiplication, right below 2^16 tokens
    int across = 1, units = 1;

    __device__ int64_t origin(int unit, int h) const {
        const int n = unit / units;
        const int in_image = unit - n * units;
        const int wy = in_image / across;
        const int wx = in_image - wy * across;
        return n * batch + static_cast<int64_t>(h) * head +
               (window > 0 ? wy * window * outer + wx * window * inner : 0);
    }
    __device__ int64_t token(int t) const {
        if (window == 0) return t * inner;
        const int row = static_cast<int>(__umulhi(static_cast<unsigned>(t), magic));
        return row * outer + (t - row * window) * inner;
    }
};

// Whatever changes a score; null where absent.
struct ScoreTerms {
    const uint8_t* key_mask = nullptr;
    int64_t mask_batch = 0;
    const float* bias = nullptr;
    int64_t bias_batch = 0, bias_head = 0, bias_query = 0;
    const float* rows = nullptr;
    const float* cols = nullptr;
    int64_t rows_batch = 0, rows_head = 0, rows_query = 0;
    int64_t cols_batch = 0, cols_head = 0, cols_query = 0;
    int grid_width = 1;
    bool causal = false;

    bool any_bias() const { return bias != nullptr || rows != nullptr; }
    bool any_mask() const { return key_mask != nullptr || causal; }

    // Kinds that kernels are made for. `grid`: bias_rows and bias_cols alone, in pairs of columns.
    enum Kind { none, mask, grid, any };
    Kind kind() const {
        if (!any_bias()) return any_mask() ? mask : none;
        const int64_t steps = cols_batch | cols_head | cols_query | grid_width;
        return bias == nullptr && !any_mask() && steps % 2 == 0 ? grid : any;
    }

    // n: image; what is added to the scaled score of query q and key k.
    __device__ float added(int n, int head, int q, int k) const {
        float sum = 0;
        if (bias != nullptr) sum += bias[n * bias_batch + head * bias_head + q * bias_query + k];
        if (rows != nullptr)
            sum += rows[n * rows_batch + head * rows_head + q * rows_query + k / grid_width] +
                   cols[n * cols_batch + head * cols_head + q * cols_query + k % grid_width];
        return sum;
    }
    __device__ bool hidden(int n, int q, int k) const { return hidden_from(q, k) || hidden_key(n, k); }
    __device__ bool hidden_from(int q, int k) const { return causal && k > q; }
    __device__ bool hidden_key(int n, int k) const { return key_mask != nullptr && key_mask[n * mask_batch + k] == 0; }
};

struct AttentionShape {
    int queries = 0, keys = 0, heads = 0, units = 0, per_image = 1;
    int head_size = 0, value_size = 0;
    float scale = 1;
};

TokenMap token_map(const Tensor& x, int heads, int window);

// Results of rows whose keys were cut into parts, before they are joined.
struct SplitRows {
    int splits = 0;
    Tensor sums;    // [units, heads, queries, splits, value_size]
    Tensor states;  // [..., 2]: highest score, in powers of two, and sum of weights

    SplitRows() = default;
    SplitRows(const ExecContext& context, const AttentionShape& shape, int count);
};
void join_rows(const ExecContext& context, const SplitRows& parts, const AttentionShape& shape, const TokenMap& out_map,
               const Tensor& out);

// attention_mma.cu: bf16 on tensor cores; head sizes that are a multiple of 8, up to 256, values no wider.
bool mma_takes(const AttentionShape& shape, const Tensor& q, const Tensor& k, const Tensor& v);
void attention_mma(const ExecContext& context, const AttentionArgs& args, const AttentionShape& shape,
                   const ScoreTerms& terms, const Tensor& q, const Tensor& k, const Tensor& v);

// attention_few_keys.cu: the same for up to 64 keys without a bias.
bool few_keys_take(const AttentionShape& shape, const ScoreTerms& terms, int window);
void attention_few_keys(const ExecContext& context, const AttentionArgs& args, const AttentionShape& shape,
                        const ScoreTerms& terms, const Tensor& q, const Tensor& k, const Tensor& v);

// attention_few_queries.cu: the same on Hopper for few queries, heads of 32 and no mask.
bool few_queries_take(const ExecContext& context, const AttentionShape& shape, const ScoreTerms& terms, int window);
void attention_few_queries(const ExecContext& context, const AttentionArgs& args, const AttentionShape& shape,
                           const ScoreTerms& terms, const Tensor& q, const Tensor& k, const Tensor& v);

// attention_wgmma.cu: the same on Hopper, for long sequences and windows of 24 tokens.
bool wgmma_takes(const ExecContext& context, const AttentionShape& shape, const ScoreTerms& terms, int window);
void attention_wgmma(const ExecContext& context, const AttentionArgs& args, const AttentionShape& shape,
                     const ScoreTerms& terms, const Tensor& q, const Tensor& k, const Tensor& v);

}  // namespace sam3::cuda
