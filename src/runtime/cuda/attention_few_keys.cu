#include "runtime/cuda/attention_few_keys.cuh"

#include "runtime/cuda/early.cuh"

#include <algorithm>

// The kernel of attention_few_keys.cuh, a warp for 16 queries of a head.
namespace sam3::cuda {

namespace {

using few_keys::FewKeys;
using few_keys::Rows;

constexpr int kMostWarps = 4;

template <int kSize, int kKeyTiles, typename Out>
__global__ void __launch_bounds__(32 * kMostWarps) few_keys_kernel(const __grid_constant__ FewKeys a) {
    const int first = (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * 16;
    let_next_start();
    wait_for_earlier();
    if (first < a.queries) few_keys::attend<kSize, kKeyTiles, Out>(a, blockIdx.y, blockIdx.z, first);
}

template <int kSize, int kKeyTiles, typename Out>
void start(const ExecContext& context, const FewKeys& a, const AttentionShape& shape) {
    const int64_t tiles = blocks_for(a.queries, 16);
    constexpr int kFewTiles = 64;  // then each has a block of its own
    const unsigned warps = tiles <= kFewTiles ? 1 : kMostWarps;
    const dim3 grid(static_cast<unsigned>(blocks_for(tiles, warps)), static_cast<unsigned>(shape.heads),
                    static_cast<unsigned>(shape.units));
    void (*const kernel)(FewKeys) = few_keys_kernel<kSize, kKeyTiles, Out>;
    launch(context, "attention", [&](cudaStream_t stream) {
        KernelLaunch(grid, 32 * warps, 0, stream).early(context).start("attention", kernel, a);
    });
}

template <int kSize, typename Out>
void start_with_keys(const ExecContext& context, const FewKeys& a, const AttentionShape& shape) {
    if (a.keys <= 16)
        start<kSize, 2, Out>(context, a, shape);
    else if (a.keys <= 32)
        start<kSize, 4, Out>(context, a, shape);
    else if (a.keys <= 48)
        start<kSize, 6, Out>(context, a, shape);
    else
        start<kSize, 8, Out>(context, a, shape);
}

template <typename Out>
void start_for(const ExecContext& context, const FewKeys& a, const AttentionShape& shape) {
    if (shape.head_size == 16)
        start_with_keys<16, Out>(context, a, shape);
    else if (shape.head_size == 32)
        start_with_keys<32, Out>(context, a, shape);
    else
        start_with_keys<64, Out>(context, a, shape);
}

}  // namespace

bool few_keys_take(const AttentionShape& shape, const ScoreTerms& terms, int window) {
    const bool size = shape.head_size == 16 || shape.head_size == 32 || shape.head_size == 64;
    return window == 0 && size && shape.value_size == shape.head_size && shape.keys <= few_keys::kMostKeys &&
           !terms.any_bias();
}

void attention_few_keys(const ExecContext& context, const AttentionArgs& args, const AttentionShape& shape,
                        const ScoreTerms& terms, const Tensor& q, const Tensor& k, const Tensor& v) {
    const FewKeys a{q.data<bf16>(), k.data<bf16>(),
                    v.data<bf16>(), args.out.raw(),
                    Rows(q),        Rows(k),
                    Rows(v),        Rows(args.out),
                    terms.key_mask, terms.mask_batch,
                    terms.causal,   shape.queries,
                    shape.keys,     shape.scale * few_keys::kLog2E};
    if (args.out.dtype() == DType::f32)
        start_for<float>(context, a, shape);
    else
        start_for<bf16>(context, a, shape);
}

}  // namespace sam3::cuda
