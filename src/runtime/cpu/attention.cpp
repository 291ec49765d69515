#include "runtime/cpu/simd/attention.h"
#include "runtime/cpu/kernels.h"
#include "runtime/cpu/simd/simd.h"
#include "runtime/device.h"

#include <algorithm>
#include <limits>

namespace sam3::cpu {

namespace {

constexpr int64_t kGroupFloats = int64_t{1}
                                 << 20;  // packed keys and values worked on at a time, if one head is smaller
constexpr int64_t kCachedFloats = int64_t{1} << 16;  // of a group that stays in the cache of one core
constexpr double kParallelFlops = 2e6;               // below, starting threads costs more than it brings

// One softmax: a head of one batch item or window.
struct Unit {
    int64_t batch, window_y, window_x, head;
};

struct AttentionPlan {
    const AttentionArgs& args;
    int64_t queries, keys;  // of a unit
    int64_t head_size, value_size;
    int64_t windows_y, windows_x;  // 1 without windows
    int64_t units;
    int64_t block_rows, blocks;  // of a unit
    const simd::Table& table;
    simd::AttentionSizes sizes{};
    int64_t limits_size;  // of a unit; 0 without a key mask
    int64_t grid_width;

    int64_t unit_size() const { return sizes.packed_keys + sizes.packed_values + limits_size; }
    int64_t tiles() const { return (keys + simd::kKeyTile - 1) / simd::kKeyTile; }
    Unit unit(int64_t i) const {
        const int64_t head = i % args.heads;
        i /= args.heads;
        return {i / (windows_y * windows_x), i / windows_x % windows_y, i % windows_x, head};
    }
};

const simd::Table& table_for(Precision precision) {
    const simd::Table& table = simd::table();
    return precision == Precision::f32 || table.bf16_attention == nullptr ? table : *table.bf16_attention;
}

AttentionPlan make_plan(const AttentionArgs& args, const ExecContext& context) {
    const int64_t w = args.window;
    AttentionPlan plan{args,
                       w > 0 ? w * w : args.q.dim(1),
                       w > 0 ? w * w : args.k.dim(1),
                       args.q.dim(-1) / args.heads,
                       args.v.dim(-1) / args.heads,
                       w > 0 ? args.q.dim(1) / w : 1,
                       w > 0 ? args.q.dim(2) / w : 1,
                       0,
                       simd::kQueryBlock,
                       0,
                       table_for(context.precision),
                       {},
                       0,
                       args.bias_cols ? args.bias_cols.dim(3) : 0};
    plan.units = args.q.dim(0) * plan.windows_y * plan.windows_x * args.heads;
    const auto count_blocks = [&] { return (plan.queries + plan.block_rows - 1) / plan.block_rows; };
    // Multiples of 24, so that a query meets the same kernel, bit for bit, in a block of any size.
    while (plan.block_rows > 24 && plan.units * count_blocks() < 4 * context.threads) plan.block_rows /= 2;
    plan.blocks = count_blocks();
    plan.table.attention_sizes(&plan.sizes, plan.keys, plan.head_size, plan.value_size, plan.grid_width);
    if (args.key_mask) plan.limits_size = (plan.keys + 15) / 16 * 16;
    return plan;
}

// The tokens of a unit's head in q, k, v or out.
simd::TokenGrid tokens_of(const Tensor& x, const Unit& unit, int64_t size, int64_t window) {
    const float* base = x.data<float>() + unit.batch * x.stride(0) + unit.head * size;
    if (window == 0) return {base, std::numeric_limits<int64_t>::max(), 0, x.stride(1)};
    base += unit.window_y * window * x.stride(1) + unit.window_x * window * x.stride(2);
    return {base, window, x.stride(1), x.stride(2)};
}

void pack_tile(const AttentionPlan& plan, int64_t index, int64_t tile, float* packed) {
    const Unit unit = plan.unit(index);
    const int64_t first = tile * simd::kKeyTile;
    const int64_t window = plan.args.window;
    const simd::Table& table = plan.table;
    table.pack_keys(packed, tokens_of(plan.args.k, unit, plan.head_size, window), plan.keys, first, plan.head_size);
    table.pack_values(packed + plan.sizes.packed_keys, tokens_of(plan.args.v, unit, plan.value_size, window), plan.keys,
                      first, plan.value_size);
    if (plan.limits_size == 0) return;
    const uint8_t* mask = plan.args.key_mask.data<uint8_t>() + unit.batch * plan.args.key_mask.stride(0);
    float* limits = packed + plan.sizes.packed_keys + plan.sizes.packed_values;
    for (int64_t i = first; i < std::min(plan.limits_size, first + simd::kKeyTile); ++i)
        limits[i] = i >= plan.keys || mask[i] != 0 ? 0.0F : -std::numeric_limits<float>::infinity();
}

const float* bias_of(const Tensor& bias, const Unit& unit, int64_t query) {
    if (!bias) return nullptr;
    return bias.data<float>() + unit.batch * bias.stride(0) + unit.head * bias.stride(1) + query * bias.stride(2);
}

void attend(const AttentionPlan& plan, int64_t index, int64_t block_index, const float* packed, float* scratch) {
    const AttentionArgs& args = plan.args;
    const Unit unit = plan.unit(index);
    const int64_t first = block_index * plan.block_rows;
    simd::AttentionBlock block{};
    block.q = tokens_of(args.q, unit, plan.head_size, args.window);
    block.out_grid = tokens_of(args.out, unit, plan.value_size, args.window);
    block.out = args.out.data<float>() + (block.out_grid.base - args.out.data<float>());
    block.first_query = first;
    block.queries = std::min(plan.block_rows, plan.queries - first);
    block.packed_keys = packed;
    block.packed_values = packed + plan.sizes.packed_keys;
    block.key_limits = plan.limits_size > 0 ? packed + plan.sizes.packed_keys + plan.sizes.packed_values : nullptr;
    block.keys = plan.keys;
    block.head_size = plan.head_size;
    block.value_size = plan.value_size;
    block.scale = args.scale;
    block.causal = args.causal;
    block.bias = bias_of(args.bias, unit, first);
    block.bias_stride = args.bias ? args.bias.stride(2) : 0;
    block.bias_rows = bias_of(args.bias_rows, unit, first);
    block.bias_cols = bias_of(args.bias_cols, unit, first);
    block.bias_rows_stride = args.bias_rows ? args.bias_rows.stride(2) : 0;
    block.bias_cols_stride = args.bias_cols ? args.bias_cols.stride(2) : 0;
    block.grid_width = plan.grid_width;
    block.scratch = scratch;
    plan.table.attention_block(block);
}

int useful_threads(const AttentionPlan& plan, int threads) {
    const double flops = 2.0 * static_cast<double>(plan.units) * static_cast<double>(plan.queries) *
                         static_cast<double>(plan.keys) * static_cast<double>(plan.head_size + plan.value_size);
    return flops < kParallelFlops ? 1 : threads;
}

}  // namespace

// Groups of heads: first all threads pack the group's keys and values, then they share its blocks of queries.
void attention(const ExecContext& context, const AttentionArgs& args) {
    const AttentionPlan plan = make_plan(args, context);
    const int threads = useful_threads(plan, context.threads);
    const int64_t enough_blocks = (8 * threads + plan.blocks - 1) / plan.blocks;
    const int64_t group = std::clamp<int64_t>(std::max(kGroupFloats / plan.unit_size(), enough_blocks), 1, plan.units);
    const std::shared_ptr<Buffer> packed_buffer = allocate_floats(context, group * plan.unit_size());
    const std::shared_ptr<Buffer> scratch_buffer = allocate_floats(context, threads * plan.sizes.scratch);
    float* const packed = static_cast<float*>(packed_buffer->data);
    float* const all_scratch = static_cast<float*>(scratch_buffer->data);

    // Few keys: the queries are most of the memory traffic, and their heads lie side by side.
    const bool heads_first = group * plan.unit_size() <= kCachedFloats;

    int next_scratch = 0;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        int mine = 0;
#pragma omp atomic capture
        mine = next_scratch++;
        float* const scratch = all_scratch + mine * plan.sizes.scratch;
        for (int64_t first = 0; first < plan.units; first += group) {
            const int64_t count = std::min(group, plan.units - first);
            const int64_t tiles = plan.tiles();
            // All heads of a tile before the next tile: they lie side by side in memory.
#pragma omp for schedule(dynamic, 4)
            for (int64_t i = 0; i < count * tiles; ++i)
                pack_tile(plan, first + i % count, i / count, packed + i % count * plan.unit_size());
#pragma omp for schedule(dynamic)
            for (int64_t i = 0; i < count * plan.blocks; ++i) {
                const int64_t unit = heads_first ? i % count : i / plan.blocks;
                const int64_t block = heads_first ? i / count : i % plan.blocks;
                attend(plan, first + unit, block, packed + unit * plan.unit_size(), scratch);
            }
        }
    }
}

}  // namespace sam3::cpu
