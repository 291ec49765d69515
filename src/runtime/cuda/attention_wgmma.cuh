#pragma once

#include "runtime/cuda/attention.cuh"
#include "runtime/cuda/early.cuh"
#include "runtime/cuda/hopper.cuh"
#include "runtime/cuda/wgmma.cuh"

#include <algorithm>

// Attention for Hopper: one warpgroup fetches tiles of keys and values with bulk copies, the others multiply. While the
// tensor cores weigh the values of one tile, the weights of the next are computed (arXiv 2407.08608).
//
// Weights are powers of two of how far scores are above the largest one of a row's first tile, so that later tiles need
// neither maxima nor new scales: floats have room for a hundred powers more. A block that meets larger scores computes
// all of its rows once more, above the largest score so far.
namespace sam3::cuda::hopper {

// Products of a tile whose operands both lie in shared memory read it nearly as long as they compute. Queries are
// therefore kept in registers where the sums leave room, and tiles have as many keys as there is memory for. Two
// warpgroups have registers for twice the keys of three; the tiles of windows are whole rows of 24 tokens.
template <int kSize_, int kValues_, bool kWindows_ = false>
struct Plan {
    static constexpr int kSize = kSize_;      // of a head's queries and keys
    static constexpr int kValues = kValues_;  // of its values
    static constexpr bool kWindows = kWindows_;
    static constexpr bool kLarge = kSize == 256;
    static constexpr bool kPair = kLarge || (kSize == 64 && !kWindows);
    static constexpr bool kKeepQueries = kSize + kValues <= 320;  // in registers
    static constexpr int kGroups = kPair ? 2 : 3;                 // warpgroups that multiply, 64 queries each
    static constexpr bool kCut = !kPair && !kWindows;             // items of one warpgroup less, see Cut
    static constexpr int kLargeKeys = kKeepQueries ? 128 : 80;
    static constexpr int kKeys = kLarge ? kLargeKeys : kPair ? 192 : kWindows ? 96 : 144;  // of a tile
    static constexpr int kStages = kLarge ? 2 : kPair ? 3 : 4;
    static constexpr int kRowBytes = kSize == 32 ? 64 : 128;
    static constexpr int kBlocks = kSize * 2 / kRowBytes;  // of columns: a copy brings one
    static constexpr int kValueBlocks = kValues * 2 / kRowBytes;
    static constexpr int kQueries = kGroups * 64;
    static constexpr int kThreads = (kGroups + 1) * 128;
    static constexpr int kFetchRegisters = kPair ? 24 : 32;
    static constexpr int kMultiplyRegisters = kPair ? 240 : 160;
    static constexpr int kQueryBytes = kQueries * kSize * 2;
    static constexpr int kKeyBytes = kKeys * kSize * 2;  // of a tile
    static constexpr int kValueBytes = kKeys * kValues * 2;
    static constexpr int kBarrierBytes = 256;
    static constexpr int kBytes = kQueryBytes + kStages * (kKeyBytes + kValueBytes) + 1024 + kBarrierBytes;  // to align
    static_assert(kBytes <= 227 * 1024 && kKeyBytes % 1024 == 0 && kValueBytes % 1024 == 0 && kQueryBytes % 1024 == 0);

    // Cycles of a multiprocessor for a tile: those of its tensor cores or of its exponentials, whichever take longer.
    static constexpr int kProducts = 2048, kExponentials = 16;  // in a cycle
    static constexpr int kTileCycles =
        kQueries * kKeys * std::max(kSize + kValues, kProducts / kExponentials) / kProducts;
};

// Where a tile begins, in the coordinates of the copies: {channel, head, column, row, image}.
struct Walk {
    int window = 0;  // 0: tokens are columns
    int across = 1, units = 1;
    int keys_down = 0, queries_down = 0;                                      // rows of a window that a tile has
    bool shared_queries = false, shared_keys = false, shared_values = false;  // by all images
};

// How the queries of a head are cut: first all items of all warpgroups, then those of one less, so that the GPU's last
// round is as full as the others.
struct Cut {
    int full = 0, shorter = 0;  // items of a head
    int heads = 0;              // of all units
};

struct WgmmaArgs {
    CUtensorMap q, k, v;
    void* out;
    float2* states;
    const uint8_t* key_mask;
    int64_t mask_batch;
    TokenMap out_map;
    AttentionShape shape;
    Walk walk;
    int splits, tiles_each;
    Cut cut;
    int items;
    int alone;  // windows: from this item on each is cut into those of single warpgroups, for the GPU's last round
    float scale_log2;
};

template <typename P>
struct Shared {
    unsigned queries, keys, values, barriers;

    __device__ explicit Shared(unsigned start)
        : queries((start + 1023U) / 1024U * 1024U),
          keys(queries + P::kQueryBytes),
          values(keys + P::kStages * P::kKeyBytes),
          barriers(values + P::kStages * P::kValueBytes) {}
    __device__ unsigned queries_full() const { return barriers; }
    __device__ unsigned queries_free() const { return barriers + 8; }
    __device__ unsigned keys_full(int s) const { return barriers + 8 * (2 + s); }
    __device__ unsigned values_full(int s) const { return barriers + 8 * (2 + P::kStages + s); }
    __device__ unsigned keys_free(int s) const { return barriers + 8 * (2 + 2 * P::kStages + s); }
    __device__ unsigned values_free(int s) const { return barriers + 8 * (2 + 3 * P::kStages + s); }
    __device__ unsigned finished() const { return barriers + 8 * (2 + 4 * P::kStages); }
    // Whether a row's sum was too large: a word.
    __device__ unsigned outgrown() const { return finished() + 8; }
    static_assert(8 * (2 + 4 * P::kStages) + 12 <= P::kBarrierBytes);
};

// One after the other, a block computes several of these: some queries of a head, over some of the keys.
struct Item {
    int head, unit, row, groups, part, begin, end;  // row: its first query; groups: warpgroups that have queries
    int only;                                       // windows: which warpgroup has queries, or -1 for all

    template <typename P>
    static __device__ Item at(const WgmmaArgs& a, int index) {
        Item item{};
        item.only = -1;
        if (P::kWindows && index >= a.alone) {
            const int number = index - a.alone;
            index = a.alone + number / P::kGroups;
            item.only = number % P::kGroups;
        }
        item.part = index % a.splits;
        index /= a.splits;
        const int full = a.cut.full * a.cut.heads;
        if (P::kCut && index >= full) {
            index -= full;
            item.groups = P::kGroups - 1;
            item.row = a.cut.full * P::kQueries + index % a.cut.shorter * item.groups * 64;
            index /= a.cut.shorter;
        } else {
            item.groups = P::kGroups;
            item.row = index % a.cut.full * P::kQueries;
            index /= a.cut.full;
        }
        item.head = index % a.shape.heads;
        item.unit = index / a.shape.heads;
        const int tiles = (a.shape.keys + P::kKeys - 1) / P::kKeys;
        item.begin = item.part * a.tiles_each;
        item.end = min(tiles, item.begin + a.tiles_each);
        return item;
    }
};

// Where a block is on its way through its items: which stage is next, and the parity of the queries' barriers.
template <typename P>
struct Place {
    Turn<P::kStages> tile{};
    int queries_parity = 0;

    static __device__ Place behind_all(const WgmmaArgs& a) {
        Place place;
        for (int index = blockIdx.x; index < a.items; index += gridDim.x) {
            const Item item = Item::at<P>(a, index);
            place.tile.skip(item.end - item.begin);
            place.queries_parity ^= 1;
        }
        return place;
    }
};

template <typename P>
__device__ inline void fetch(const WgmmaArgs& a, const Shared<P>& m, const Place<P>& from) {
    const Walk& w = a.walk;
    Turn<P::kStages> turn = from.tile;
    int queries_parity = from.queries_parity;
    for (int index = blockIdx.x; index < a.items; index += gridDim.x) {
        const Item item = Item::at<P>(a, index);
        const int image = item.unit / w.units;
        const int in_image = item.unit - image * w.units;
        const int column = w.window == 0 ? 0 : in_image % w.across * w.window;
        const int row = w.window == 0 ? 0 : in_image / w.across * w.window;
        const int q_image = w.shared_queries ? 0 : image;
        const int k_image = w.shared_keys ? 0 : image;
        const int v_image = w.shared_values ? 0 : image;
        wait_barrier(m.queries_free(), queries_parity ^ 1);
        arrive_expecting(m.queries_full(), P::kQueryBytes);
        queries_parity ^= 1;
        for (int c = 0; c < P::kBlocks; ++c)
            copy_box(m.queries + c * P::kQueries * P::kRowBytes, a.q, m.queries_full(), c * (P::kRowBytes / 2),
                     item.head, w.window == 0 ? item.row : column,
                     w.window == 0 ? 0 : row + item.row / P::kQueries * w.queries_down, q_image);
        for (int tile = item.begin; tile < item.end; ++tile, turn.next()) {
            const int x = w.window == 0 ? tile * P::kKeys : column;
            const int y = w.window == 0 ? 0 : row + tile * w.keys_down;
            wait_barrier(m.keys_free(turn.stage), turn.parity ^ 1);
            arrive_expecting(m.keys_full(turn.stage), P::kKeyBytes);
            for (int c = 0; c < P::kBlocks; ++c)
                copy_box(m.keys + turn.stage * P::kKeyBytes + c * P::kKeys * P::kRowBytes, a.k, m.keys_full(turn.stage),
                         c * (P::kRowBytes / 2), item.head, x, y, k_image);
            wait_barrier(m.values_free(turn.stage), turn.parity ^ 1);
            arrive_expecting(m.values_full(turn.stage), P::kValueBytes);
            for (int c = 0; c < P::kValueBlocks; ++c)
                copy_box(m.values + turn.stage * P::kValueBytes + c * P::kKeys * P::kRowBytes, a.v,
                         m.values_full(turn.stage), c * (P::kRowBytes / 2), item.head, x, y, v_image);
        }
    }
}

// A warpgroup's queries: in registers where there is room, else read from shared memory each time.
template <typename P>
struct Queries {
    static constexpr int kSteps = P::kSize / 16;
    static constexpr int kStepsEach = P::kRowBytes / 32;  // of 16 channels in a block of columns
    static constexpr bool kInRegisters = P::kKeepQueries;
    unsigned shared;
    unsigned values[kInRegisters ? kSteps : 1][4];

    __device__ void load(int warp, int lane) {
        if constexpr (kInRegisters) {
#pragma unroll
            for (int s = 0; s < kSteps; ++s)
                load_matrices(
                    values[s],
                    shared + s / kStepsEach * P::kQueries * P::kRowBytes +
                        swizzled<P::kRowBytes / 16>(warp * 16 + lane % 16, s % kStepsEach * 2 + lane / 16) * 16);
        }
    }

    // score = queries * keys^T
    __device__ void multiply(float (&score)[P::kKeys / 2], unsigned keys) const {
        const uint64_t q = describe<P::kRowBytes>(shared);
        const uint64_t k = describe<P::kRowBytes>(keys);
#pragma unroll
        for (int s = 0; s < kSteps; ++s) {
            const int c = s / kStepsEach;
            const uint64_t b = moved(k, c * P::kKeys * P::kRowBytes + s % kStepsEach * 32);
            if constexpr (kInRegisters)
                Wgmma<P::kKeys>::template of_registers<0>(score, values[s], b, s > 0 ? 1 : 0);
            else
                Wgmma<P::kKeys>::of_shared(score, moved(q, c * P::kQueries * P::kRowBytes + s % kStepsEach * 32), b,
                                           s > 0 ? 1 : 0);
        }
    }
};

// sums += weights * values
template <typename P>
__device__ inline void multiply_values(float (&sums)[P::kValues / 2], const unsigned (&weights)[P::kKeys / 16][4],
                                       unsigned values) {
    const uint64_t v = describe<P::kRowBytes>(values, P::kKeys * P::kRowBytes);
#pragma unroll
    for (int s = 0; s < P::kKeys / 16; ++s)
        Wgmma<P::kValues>::template of_registers<1>(sums, weights[s], moved(v, s * 16 * P::kRowBytes), 1);
}

// What a thread knows of its two rows.
struct Rows {
    float highest[2] = {-INFINITY, -INFINITY};
    float base[2] = {0, 0};  // what scores are above, times the scale
    float total[2] = {0, 0};
    float keep[2] = {1, 1};  // what is left of earlier sums

    static constexpr float kMost = 0x1p100F;  // of a total: beyond it sums may not fit
    __device__ bool outgrown() const { return !(fmaxf(total[0], total[1]) < kMost); }
};

// Scores become weights, and the rows' sums move on; where kRises, their maxima do too.
template <typename P, bool kMasked, bool kRises>
__device__ inline void weigh(float (&score)[P::kKeys / 2], Rows& rows, const WgmmaArgs& a, int image, int first_key,
                             int lane) {
    const bool last = first_key + P::kKeys > a.shape.keys;
    if (kMasked || last) {
#pragma unroll
        for (int n = 0; n < P::kKeys / 8; ++n)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int key = first_key + n * 8 + lane % 4 * 2 + i;
                bool hidden = key >= a.shape.keys;
                if constexpr (kMasked) hidden = hidden || a.key_mask[image * a.mask_batch + key] == 0;
                if (hidden) score[4 * n + i] = score[4 * n + 2 + i] = -INFINITY;
            }
    }
    constexpr int kChains = 4;  // several short ones instead of a long one
    if constexpr (kRises) {
        float top[2][kChains];
#pragma unroll
        for (int c = 0; c < kChains; ++c) top[0][c] = top[1][c] = -INFINITY;
#pragma unroll
        for (int n = 0; n < P::kKeys / 8; ++n)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float& t = top[half][n % kChains];
                t = fmaxf(t, fmaxf(score[4 * n + 2 * half], score[4 * n + 2 * half + 1]));
            }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float t = fmaxf(fmaxf(top[half][0], top[half][1]), fmaxf(top[half][2], top[half][3]));
            t = fmaxf(t, __shfl_xor_sync(0xffffffffU, t, 1));
            t = fmaxf(t, __shfl_xor_sync(0xffffffffU, t, 2));
            t = fmaxf(t, rows.highest[half]);
            rows.base[half] = t == -INFINITY ? 0.0F : t * a.scale_log2;
            rows.keep[half] = exp2_fast(rows.highest[half] * a.scale_log2 - rows.base[half]);
            rows.highest[half] = t;
        }
    }
    float sum[2][kChains] = {};
#pragma unroll
    for (int n = 0; n < P::kKeys / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float& x = score[4 * n + i];
            x = exp2_fast(x * a.scale_log2 - rows.base[i / 2]);
            sum[i / 2][(2 * n + i) % kChains] += x;
        }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float more = (sum[half][0] + sum[half][1]) + (sum[half][2] + sum[half][3]);
        rows.total[half] = (kRises ? rows.total[half] * rows.keep[half] : rows.total[half]) + more;
    }
}

template <typename P>
__device__ inline void pack_weights(unsigned (&weights)[P::kKeys / 16][4], const float (&score)[P::kKeys / 2]) {
#pragma unroll
    for (int s = 0; s < P::kKeys / 16; ++s)
#pragma unroll
        for (int i = 0; i < 4; ++i) weights[s][i] = pack(score[8 * s + 2 * i], score[8 * s + 2 * i + 1]);
}

template <typename P, bool kSplit, typename Out>
__device__ inline void store_rows(const WgmmaArgs& a, const Item& item, const Rows& rows,
                                  const float (&sums)[P::kValues / 2], int first_row, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float sum = rows.total[half];
        sum += __shfl_xor_sync(0xffffffffU, sum, 1);
        sum += __shfl_xor_sync(0xffffffffU, sum, 2);
        const int row = first_row + lane / 4 + half * 8;
        if (row >= a.shape.queries) continue;
        const float factor = sum > 0 ? 1.0F / sum : 0.0F;
        Out* to = nullptr;
        if constexpr (kSplit) {
            const int64_t index =
                ((static_cast<int64_t>(item.unit) * a.shape.heads + item.head) * a.shape.queries + row) * a.splits +
                item.part;
            to = static_cast<Out*>(a.out) + index * P::kValues;
            if (lane % 4 == 0)
                a.states[index] = {rows.highest[half] == -INFINITY ? -INFINITY : rows.highest[half] * a.scale_log2,
                                   sum};
        } else {
            to = static_cast<Out*>(a.out) + a.out_map.origin(item.unit, item.head) + a.out_map.token(row);
        }
#pragma unroll
        for (int n = 0; n < P::kValues / 8; ++n)
            store_pair(to + n * 8 + lane % 4 * 2, sums[4 * n + 2 * half] * factor, sums[4 * n + 2 * half + 1] * factor);
    }
}

// A warpgroup's way through its items.
template <typename P, bool kMasked, bool kSplit, typename Out>
struct Multiplier {
    const WgmmaArgs& a;
    const Shared<P>& m;
    Turn<P::kStages> keys, values;
    int queries_parity;
    int group = warpgroup() - 1;
    int lane = static_cast<int>(threadIdx.x) % 32;
    int warp = static_cast<int>(threadIdx.x) / 32 % 4;
    Queries<P> queries{m.queries + group * 64 * P::kRowBytes, {}};

    __device__ Multiplier(const WgmmaArgs& args, const Shared<P>& memory, const Place<P>& from)
        : a(args), m(memory), keys(from.tile), values(from.tile), queries_parity(from.queries_parity) {}

    __device__ void done(unsigned barrier) const {
        if (lane == 0) arrive(barrier);
    }
    // Warpgroups start their products in turn: while one's run, the others weigh. A turn ends when the scores are
    // there, or else all would wait for scores and weigh at the same time; large heads, whose products take longest,
    // keep the tensor cores supplied instead.
    __device__ void take_turn() const { wait_in_block(1 + group, 256); }
    __device__ void pass_turn() const { arrive_in_block(1 + (group + 1) % P::kGroups, 256); }

    // What a warpgroup does that has no queries.
    __device__ void keep_step(const Item& item) {
        wait_barrier(m.queries_full(), queries_parity);
        queries_parity ^= 1;
        done(m.queries_free());
        for (int tile = item.begin; tile < item.end; ++tile) {
            wait_barrier(m.keys_full(keys.stage), keys.parity);
            done(m.keys_free(keys.stage));
            keys.next();
            take_turn();
            pass_turn();
            wait_barrier(m.values_full(values.stage), values.parity);
            done(m.values_free(values.stage));
            values.next();
        }
    }

    template <bool kRises>
    __device__ void attend(const Item& item) {
        const int image = item.unit / a.shape.per_image;
        float score[P::kKeys / 2];
        float sums[P::kValues / 2] = {};
        unsigned weights[P::kKeys / 16][4];
        Rows rows;

        wait_barrier(m.queries_full(), queries_parity);
        queries_parity ^= 1;
        queries.load(warp, lane);
        if (Queries<P>::kInRegisters) done(m.queries_free());
        wait_barrier(m.keys_full(keys.stage), keys.parity);
        take_turn();
        begin_products();
        queries.multiply(score, m.keys + keys.stage * P::kKeyBytes);
        commit_products();
        pass_turn();
        wait_for_products<0>();
        done(m.keys_free(keys.stage));
        keys.next();
        weigh<P, kMasked, true>(score, rows, a, image, item.begin * P::kKeys, lane);
        pack_weights<P>(weights, score);

        for (int tile = item.begin + 1; tile < item.end; ++tile) {
            wait_barrier(m.keys_full(keys.stage), keys.parity);
            wait_barrier(m.values_full(values.stage), values.parity);
            take_turn();
            begin_products();
            queries.multiply(score, m.keys + keys.stage * P::kKeyBytes);
            commit_products();
            multiply_values<P>(sums, weights, m.values + values.stage * P::kValueBytes);
            commit_products();
            if (P::kLarge) pass_turn();
            wait_for_products<1>();
            if (!P::kLarge) pass_turn();
            done(m.keys_free(keys.stage));
            keys.next();
            weigh<P, kMasked, kRises>(score, rows, a, image, tile * P::kKeys, lane);
            wait_for_products<0>();
            done(m.values_free(values.stage));
            values.next();
            if constexpr (kRises) {
#pragma unroll
                for (int i = 0; i < P::kValues / 2; ++i) sums[i] *= rows.keep[i / 2 % 2];
            }
            pack_weights<P>(weights, score);
        }
        if (!Queries<P>::kInRegisters) done(m.queries_free());
        wait_barrier(m.values_full(values.stage), values.parity);
        begin_products();
        multiply_values<P>(sums, weights, m.values + values.stage * P::kValueBytes);
        commit_products();
        wait_for_products<0>();
        done(m.values_free(values.stage));
        values.next();
        if (!kRises && rows.outgrown()) store_shared(m.outgrown(), 1);
        store_rows<P, kSplit, Out>(a, item, rows, sums, item.row + group * 64 + warp * 16, lane);
    }

    template <bool kRises>
    __device__ void run() {
        if (group == P::kGroups - 1) pass_turn();
        for (int index = blockIdx.x; index < a.items; index += gridDim.x) {
            const Item item = Item::at<P>(a, index);
            const bool idle =
                (P::kCut && group >= item.groups) || (P::kWindows && item.only >= 0 && item.only != group);
            idle ? keep_step(item) : attend<kRises>(item);
        }
        if (group == 0) take_turn();  // nothing is left over
    }
};

template <typename P, bool kMasked, bool kSplit, typename Out>
__global__ void __launch_bounds__(P::kThreads, 1) wgmma_kernel(const __grid_constant__ WgmmaArgs a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    const Shared<P> m(uniform(shared_address(memory)));
    if (threadIdx.x == 0) {
        constexpr int kReaders = 4 * P::kGroups;  // warps
        init_barrier(m.queries_full(), 1);
        init_barrier(m.queries_free(), kReaders);
        for (int s = 0; s < P::kStages; ++s) {
            init_barrier(m.keys_full(s), 1);
            init_barrier(m.values_full(s), 1);
            init_barrier(m.keys_free(s), kReaders);
            init_barrier(m.values_free(s), kReaders);
        }
        init_barrier(m.finished(), P::kGroups * 128);
        store_shared(m.outgrown(), 0);
        publish_barriers();
    }
    __syncthreads();
    let_next_start();
    // Whether all of the block's rows must be computed once more.
    const auto outgrown = [&] {
        if (kMasked) return false;
        wait_barrier(m.finished(), 0);
        return load_shared(m.outgrown()) != 0;
    };
    if (threadIdx.x < 128) {
        give_registers<P::kFetchRegisters>();
        wait_for_earlier();  // the others wait for what comes from here
        if (threadIdx.x > 0) return;
        fetch<P>(a, m, {});
        if (outgrown()) fetch<P>(a, m, Place<P>::behind_all(a));
    } else {
        take_registers<P::kMultiplyRegisters>();
        using Rounds = Multiplier<P, kMasked, kSplit, Out>;
        // With a mask a row's first tile may have no keys.
        Rounds(a, m, {}).template run<kMasked>();
        arrive(m.finished());
        if (outgrown()) Rounds(a, m, Place<P>::behind_all(a)).template run<true>();
    }
#else
    (void)a;
#endif
}

}  // namespace sam3::cuda::hopper
