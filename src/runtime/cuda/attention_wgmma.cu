#include "runtime/cuda/attention_wgmma.cuh"
#include "runtime/cuda/tensor_map.h"

#include <algorithm>

// Describes tensors to the copy engine, cuts the work into items and starts attention_wgmma.cuh.
namespace sam3::cuda {

namespace {

using hopper::Cut;
using hopper::Plan;
using hopper::WgmmaArgs;

constexpr float kLog2E = 1.44269504088896340736F;

// x as {channels of a head, heads, columns, rows, images}; a copy brings `down` rows of `across` columns.
template <typename P>
CUtensorMap map_of(const Tensor& x, int size, int heads, int window, int across, int down) {
    const bool shared = x.stride(0) == 0 || x.dim(0) == 1;
    const int64_t columns = window == 0 ? x.dim(1) : x.dim(2);
    const int64_t rows = window == 0 ? 1 : x.dim(1);
    const int64_t token = window == 0 ? x.stride(1) : x.stride(2);
    const int64_t line = window == 0 ? token * columns : x.stride(1);
    return tensor_map(x.raw(), {size, heads, columns, rows, shared ? 1 : x.dim(0)},
                      {size, token, line, shared ? line * rows : x.stride(0)}, {P::kRowBytes / 2, 1, across, down, 1},
                      P::kRowBytes);
}

template <typename P, bool kMasked, bool kSplit, typename Out>
void start(const ExecContext& context, const WgmmaArgs& a, cudaStream_t stream) {
    const auto kernel = hopper::wgmma_kernel<P, kMasked, kSplit, Out>;
    static const cudaError_t raised =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, P::kBytes);
    check(raised, "attention");
    const auto blocks = static_cast<unsigned>(std::min(a.items, device_of(context).multiprocessors()));
    KernelLaunch(dim3(blocks), P::kThreads, P::kBytes, stream).early(context).start("attention", kernel, a);
}

// Parts that the keys are cut into, so that the blocks fill the GPU evenly. Counted in tiles that a multiprocessor
// works on: each part begins without overlap, its sums are written and read once more, and joining is a launch.
template <typename P>
int splits_for(const AttentionShape& shape, int multiprocessors) {
    const int64_t blocks = blocks_for(shape.queries, P::kQueries) * shape.heads * shape.units;
    const int64_t tiles = blocks_for(shape.keys, P::kKeys);
    constexpr double kBeginning = 1.5;
    constexpr double kBytesACycle = 24.0;
    constexpr double kSums = P::kQueries * P::kValues * 2 * sizeof(float) / kBytesACycle / P::kTileCycles;
    constexpr double kLaunch = 6000.0 / P::kTileCycles;
    constexpr int64_t kLeastTiles = 8, kMostSplits = 16;
    const auto cost = [&](int64_t splits) {
        const auto rounds = static_cast<double>(blocks_for(blocks * splits, multiprocessors));
        const auto each = static_cast<double>(blocks_for(tiles, splits)) + kBeginning;
        return splits == 1 ? rounds * each : rounds * (each + kSums) + kLaunch;
    };
    int64_t best = 1;
    for (int64_t splits = 2; splits <= kMostSplits && tiles / splits >= kLeastTiles; ++splits)
        if (cost(splits) < cost(best)) best = splits;
    return static_cast<int>(best);
}

// Blocks take items in turn, so what the busiest has is known. There are no items of a single warpgroup, which would
// have nothing to hide its products behind.
template <typename P>
Cut cut_for(const AttentionShape& shape, int splits, int multiprocessors) {
    constexpr double kBeginning = 0.3;  // what an item costs whatever its size, in warpgroups' work
    const auto parts = static_cast<int>(blocks_for(shape.queries, 64));
    Cut best{static_cast<int>(blocks_for(parts, P::kGroups)), 0, shape.heads * shape.units};
    if (!P::kCut || splits > 1) return best;
    const auto busiest = [&](const Cut& cut) {  // the first block, because full items come first
        const int full = cut.full * cut.heads;
        double work = 0;
        for (int item = 0; item < full + cut.shorter * cut.heads; item += multiprocessors)
            work += kBeginning + (item < full ? P::kGroups : P::kGroups - 1);
        return work;
    };
    for (int full = best.full - 1; full >= 0; --full) {
        const auto shorter = static_cast<int>(blocks_for(parts - full * P::kGroups, P::kGroups - 1));
        const Cut cut{full, shorter, best.heads};
        if (busiest(cut) < busiest(best)) best = cut;
    }
    return best;
}

template <typename P>
void attend(const ExecContext& context, const AttentionArgs& args, WgmmaArgs a, const Tensor& q, const Tensor& k,
            const Tensor& v) {
    const int w = args.window;
    a.walk.keys_down = w == 0 ? 1 : P::kKeys / w;
    a.walk.queries_down = w == 0 ? 1 : P::kQueries / w;
    a.q = map_of<P>(q, P::kSize, args.heads, w, w == 0 ? P::kQueries : w, a.walk.queries_down);
    a.k = map_of<P>(k, P::kSize, args.heads, w, w == 0 ? P::kKeys : w, a.walk.keys_down);
    a.v = map_of<P>(v, P::kValues, args.heads, w, w == 0 ? P::kKeys : w, a.walk.keys_down);
    const int64_t tiles = blocks_for(a.shape.keys, P::kKeys);
    const int multiprocessors = device_of(context).multiprocessors();
    const int splits = w == 0 ? splits_for<P>(a.shape, multiprocessors) : 1;
    a.tiles_each = static_cast<int>(blocks_for(tiles, splits));
    a.splits = static_cast<int>(blocks_for(tiles, a.tiles_each));
    a.cut = cut_for<P>(a.shape, a.splits, multiprocessors);
    a.items = (a.cut.full + a.cut.shorter) * a.cut.heads * a.splits;
    const int left = a.items % multiprocessors;  // for the last round
    const bool cut_last = P::kWindows && left * P::kGroups <= multiprocessors;
    a.alone = a.items - (cut_last ? left : 0);
    if (cut_last) a.items += left * (P::kGroups - 1);
    const bool masked = a.key_mask != nullptr;
    const SplitRows parts = a.splits == 1 ? SplitRows{} : SplitRows(context, a.shape, a.splits);
    if (a.splits > 1) {
        a.out = parts.sums.raw();
        a.states = static_cast<float2*>(parts.states.raw());
    }
    const bool floats = args.out.dtype() == DType::f32;
    launch(context, "attention", [&](cudaStream_t stream) {
        if constexpr (P::kWindows)  // neither masked nor split
            floats ? start<P, false, false, float>(context, a, stream)
                   : start<P, false, false, bf16>(context, a, stream);
        else if (a.splits > 1)
            masked ? start<P, true, true, float>(context, a, stream) : start<P, false, true, float>(context, a, stream);
        else if (floats)
            masked ? start<P, true, false, float>(context, a, stream)
                   : start<P, false, false, float>(context, a, stream);
        else
            masked ? start<P, true, false, bf16>(context, a, stream) : start<P, false, false, bf16>(context, a, stream);
    });
    if (a.splits > 1) join_rows(context, parts, a.shape, a.out_map, args.out);
}

bool fits(int window, int tokens) { return window == 0 || (tokens % window == 0 && window * window % tokens == 0); }

}  // namespace

bool wgmma_takes(const ExecContext& context, const AttentionShape& shape, const ScoreTerms& terms, int window) {
    const bool even = shape.value_size == shape.head_size &&
                      (shape.head_size == 32 || shape.head_size == 64 || shape.head_size == 256);
    const bool narrow = shape.head_size == 256 && shape.value_size == 64;
    if (!(even || narrow) || !device_of(context).is_hopper() || !can_map_tensors() || terms.any_bias() || terms.causal)
        return false;
    constexpr int kFewKeys = 512;  // then there is little to overlap
    if (window == 0) return shape.keys >= kFewKeys && shape.queries >= kFewKeys;
    using P = Plan<64, 64, true>;
    return shape.head_size == 64 && terms.key_mask == nullptr && fits(window, P::kKeys) && fits(window, P::kQueries);
}

void attention_wgmma(const ExecContext& context, const AttentionArgs& args, const AttentionShape& shape,
                     const ScoreTerms& terms, const Tensor& q, const Tensor& k, const Tensor& v) {
    WgmmaArgs a{};
    a.out = args.out.raw();
    a.key_mask = terms.key_mask;
    a.mask_batch = terms.mask_batch;
    a.out_map = token_map(args.out, args.heads, args.window);
    a.shape = shape;
    a.walk.window = args.window;
    a.walk.across = a.out_map.across;
    a.walk.units = a.out_map.units;
    a.walk.shared_queries = q.stride(0) == 0 || q.dim(0) == 1;
    a.walk.shared_keys = k.stride(0) == 0 || k.dim(0) == 1;
    a.walk.shared_values = v.stride(0) == 0 || v.dim(0) == 1;
    a.scale_log2 = shape.scale * kLog2E;
    if (shape.head_size == 32)
        attend<Plan<32, 32>>(context, args, a, q, k, v);
    else if (shape.head_size == 64 && args.window > 0)
        attend<Plan<64, 64, true>>(context, args, a, q, k, v);
    else if (shape.head_size == 64)
        attend<Plan<64, 64>>(context, args, a, q, k, v);
    else if (shape.value_size == 64)
        attend<Plan<256, 64>>(context, args, a, q, k, v);
    else
        attend<Plan<256, 256>>(context, args, a, q, k, v);
}

}  // namespace sam3::cuda
