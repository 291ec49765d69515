#include "runtime/cpu/simd/attention.h"
#include "runtime/cpu/simd/bf16.h"
#include "runtime/cpu/simd/kernels/functions.h"
#include "runtime/cpu/simd/vec_math.h"

// Attention of one block of queries, in the manner of FlashAttention: scores of a tile of keys, softmax relative to the
// maximum so far, weighted sum of the tile's values. Both products run on one register-blocked kernel. A query's result
// does not depend on the block that it is part of.
//
// Compiled with instructions for bf16, the operands of both products are bf16, two along the depth at a time; scores,
// maxima and sums stay f32.
namespace sam3::simd::SAM3_SIMD_VARIANT {

namespace {

constexpr int kPanelVectors = kRegisters == 32 ? 4 : 2;  // columns of the product in registers, in vectors
constexpr int64_t kPanel = kPanelVectors * kLanes;
constexpr int64_t kRowGroup = 6;                 // rows of the product in registers
constexpr int64_t kRowStep = 2;                  // the number of rows is rounded up to it
constexpr int64_t kScoreStride = kKeyTile + 16;  // not a power of two: rows fall into different cache sets
constexpr int64_t kChunkFloats = 4096;           // of a packed operand, to stay in half a core's L1 cache
constexpr float kLog2E = 1.44269504088896341F;

static_assert(kKeyTile % kPanel == 0 && kQueryBlock % (2 * kRowGroup) == 0);

constexpr int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }
SAM3_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
SAM3_INLINE float minus_infinity() { return -__builtin_inff(); }

// Walks over the tokens of a grid in order, without a division each.
struct TokenCursor {
    const TokenGrid& grid;
    int64_t x;
    int64_t row;  // offset of the grid's row

    TokenCursor(const TokenGrid& tokens, int64_t first)
        : grid(tokens), x(first % tokens.width), row(first / tokens.width * tokens.stride_y) {}
    int64_t next() {
        const int64_t offset = row + x * grid.stride_x;
        if (++x == grid.width) {
            x = 0;
            row += grid.stride_y;
        }
        return offset;
    }
};

#if defined(__AVX512BF16__)
constexpr int64_t kGroup = 2;  // operands along the depth that are multiplied at a time
using Operand = uint16_t;
using Operands = IntVec;  // a group in each lane
SAM3_INLINE Operands load_operands(const Operand* p) { return load_pairs(p); }
SAM3_INLINE Operands broadcast_group(const Operand* p) { return broadcast_pair(p); }
SAM3_INLINE Vec add_products(Vec sum, Operands a, Operands b) { return add_pair_products(sum, a, b); }
SAM3_INLINE void store_operands(Operand* p, Vec v) { store_bf16(p, v); }
SAM3_INLINE Operand to_operand(float x) { return static_cast<Operand>(to_bf16(broadcast(x))[0]); }
#else
constexpr int64_t kGroup = 1;
using Operand = float;
using Operands = Vec;
SAM3_INLINE Operands load_operands(const Operand* p) { return load(p); }
SAM3_INLINE Operands broadcast_group(const Operand* p) { return broadcast(*p); }
SAM3_INLINE Vec add_products(Vec sum, Operands a, Operands b) { return a * b + sum; }
SAM3_INLINE void store_operands(Operand* p, Vec v) { store(p, v); }
SAM3_INLINE Operand to_operand(float x) { return x; }
#endif
static_assert(kGroup * sizeof(Operand) == sizeof(float));

SAM3_INLINE int64_t groups_of(int64_t depth) { return (depth + kGroup - 1) / kGroup; }
SAM3_INLINE int64_t padded(int64_t depth) { return groups_of(depth) * kGroup; }

enum class Start { zero, keep, scale };  // what happens to c before the product is added

// c[r, :] (+)= a[r, :] * b; b is packed as [groups, Vectors * kLanes, kGroup].
template <int Rows, int Vectors>
void multiply(const Operand* a, int64_t a_stride, const Operand* b, int64_t groups, float* c, int64_t c_stride,
              Start start, const float* scale) {
    Vec sum[Rows][Vectors];
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) sum[r][v] = Vec{};
    if (start != Start::zero) {
#pragma GCC unroll 16
        for (int r = 0; r < Rows; ++r) {
            const Vec factor = broadcast(start == Start::scale ? scale[r] : 1.0F);
#pragma GCC unroll 4
            for (int v = 0; v < Vectors; ++v) sum[r][v] = load(c + r * c_stride + v * kLanes) * factor;
        }
    }
#pragma GCC unroll 2
    for (int64_t g = 0; g < groups; ++g) {
        Operands columns[Vectors];
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) columns[v] = load_operands(b + (g * Vectors + v) * kLanes * kGroup);
#pragma GCC unroll 16
        for (int r = 0; r < Rows; ++r) {
            const Operands factor = broadcast_group(a + r * a_stride + g * kGroup);
#pragma GCC unroll 4
            for (int v = 0; v < Vectors; ++v) sum[r][v] = add_products(sum[r][v], factor, columns[v]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) store(c + r * c_stride + v * kLanes, sum[r][v]);
}

// All rows (a multiple of kRowStep) against one panel, chunk of its depth by chunk. Which kernel computes a row depends
// on its distance to the last row only, not on the block.
template <int Vectors>
void multiply_panel(const Operand* a, int64_t a_stride, const Operand* b, int64_t groups, float* c, int64_t c_stride,
                    int64_t rows, const float* scale) {
    constexpr int kWide = (kRegisters == 32 && Vectors <= 2) || Vectors == 1 ? 2 * kRowGroup : kRowGroup;
    constexpr int64_t kChunk = kChunkFloats / (Vectors * kLanes);
    Start start = scale == nullptr ? Start::zero : Start::scale;
    for (int64_t g = 0; g < groups; g += kChunk) {
        const int64_t size = smaller(kChunk, groups - g);
        const Operand* panel = b + g * Vectors * kLanes * kGroup;
        const Operand* left = a + g * kGroup;
        const auto scale_of = [=](int64_t row) { return scale == nullptr ? nullptr : scale + row; };
        int64_t r = 0;
        for (; r + kWide <= rows; r += kWide)
            multiply<kWide, Vectors>(left + r * a_stride, a_stride, panel, size, c + r * c_stride, c_stride, start,
                                     scale_of(r));
        for (; r + kRowGroup <= rows; r += kRowGroup)
            multiply<kRowGroup, Vectors>(left + r * a_stride, a_stride, panel, size, c + r * c_stride, c_stride, start,
                                         scale_of(r));
        if (rows - r == 4)
            multiply<4, Vectors>(left + r * a_stride, a_stride, panel, size, c + r * c_stride, c_stride, start,
                                 scale_of(r));
        if (rows - r == 2)
            multiply<2, Vectors>(left + r * a_stride, a_stride, panel, size, c + r * c_stride, c_stride, start,
                                 scale_of(r));
        start = Start::keep;
    }
}

void multiply_panel(int vectors, const Operand* a, int64_t a_stride, const Operand* b, int64_t groups, float* c,
                    int64_t c_stride, int64_t rows, const float* scale) {
    if (vectors == 1) return multiply_panel<1>(a, a_stride, b, groups, c, c_stride, rows, scale);
    if (vectors == 2) return multiply_panel<2>(a, a_stride, b, groups, c, c_stride, rows, scale);
    if constexpr (kPanelVectors == 4) {
        if (vectors == 3) return multiply_panel<3>(a, a_stride, b, groups, c, c_stride, rows, scale);
        multiply_panel<4>(a, a_stride, b, groups, c, c_stride, rows, scale);
    }
}

// Columns of the values in panels of nearly equal width; returns the vectors of panel i.
struct Panels {
    int64_t vectors, count;
    explicit Panels(int64_t columns)
        : vectors((columns + kLanes - 1) / kLanes), count((vectors + kPanelVectors - 1) / kPanelVectors) {}
    int64_t first(int64_t i) const { return vectors * i / count; }
    int width(int64_t i) const { return static_cast<int>(first(i + 1) - first(i)); }
};

typedef float Quad __attribute__((vector_size(16)));

SAM3_INLINE Quad load_quad(const float* p) {
    Quad q;
    __builtin_memcpy(&q, p, sizeof q);
    return q;
}
SAM3_INLINE void store_quad(float* p, Quad q) { __builtin_memcpy(p, &q, sizeof q); }

// Four rows of n floats -> n rows of four, `stride` apart.
SAM3_INLINE void transpose_four(const float* const rows[4], int64_t n, float* out, int64_t stride) {
    int64_t d = 0;
    for (; d + 4 <= n; d += 4) {
        const Quad a = load_quad(rows[0] + d);
        const Quad b = load_quad(rows[1] + d);
        const Quad c = load_quad(rows[2] + d);
        const Quad e = load_quad(rows[3] + d);
        const Quad ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
        const Quad ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        const Quad ce_low = __builtin_shufflevector(c, e, 0, 4, 1, 5);
        const Quad ce_high = __builtin_shufflevector(c, e, 2, 6, 3, 7);
        store_quad(out + d * stride, __builtin_shufflevector(ab_low, ce_low, 0, 1, 4, 5));
        store_quad(out + (d + 1) * stride, __builtin_shufflevector(ab_low, ce_low, 2, 3, 6, 7));
        store_quad(out + (d + 2) * stride, __builtin_shufflevector(ab_high, ce_high, 0, 1, 4, 5));
        store_quad(out + (d + 3) * stride, __builtin_shufflevector(ab_high, ce_high, 2, 3, 6, 7));
    }
    for (; d < n; ++d)
        for (int i = 0; i < 4; ++i) out[d * stride + i] = rows[i][d];
}

SAM3_INLINE void scale_operands(Operand* out, const float* in, float factor, int64_t n) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store_operands(out + i, load(in + i) * factor);
    for (; i < padded(n); ++i) out[i] = to_operand(i < n ? in[i] * factor : 0.0F);
}

#if defined(__AVX512BF16__)
// Four rows as bf16: pairs of neighbours stay together.
SAM3_INLINE void transpose_rows(const float* const rows[4], int64_t n, float* out, int64_t stride) {
    constexpr int64_t kStep = 256;  // elements at a time
    alignas(64) uint16_t halves[4][kStep];
    for (int64_t d = 0; d < n; d += kStep) {
        const int64_t size = smaller(kStep, n - d);
        const float* pairs[4];
        for (int i = 0; i < 4; ++i) {
            scale_operands(halves[i], rows[i] + d, 1.0F, size);
            pairs[i] = reinterpret_cast<const float*>(halves[i]);
        }
        transpose_four(pairs, groups_of(size), out + d / kGroup * stride, stride);
    }
}
// The same column of two rows in each lane; a missing row counts as zeros.
SAM3_INLINE Vec group_of(const float* const rows[kGroup], int64_t d, int64_t lanes) {
    const UintVec first = to_bf16(load_first(rows[0] + d, lanes));
    const UintVec second = rows[1] == nullptr ? UintVec{} : to_bf16(load_first(rows[1] + d, lanes));
    return reinterpret_cast<Vec>(second << 16 | first);
}
#else
SAM3_INLINE void transpose_rows(const float* const rows[4], int64_t n, float* out, int64_t stride) {
    transpose_four(rows, n, out, stride);
}
SAM3_INLINE Vec group_of(const float* const rows[kGroup], int64_t d, int64_t lanes) {
    return lanes == kLanes ? load(rows[0] + d) : load_first(rows[0] + d, lanes);
}
#endif

// A thread's working memory for one block.
struct Workspace {
    Operand* q;          // [rows, padded head_size], scaled
    float* scores;       // [rows, kScoreStride]; in their place the weights, as operands
    float* sums;         // [rows, value_stride], the weighted sums of the values
    float* weights;      // [rows, kLanes], partial sums of the softmax's denominator
    float* maxima;       // [rows]
    float* corrections;  // [rows], factor for what was summed relative to the former maximum
    float* bias_cols;    // [rows, cols_stride], in units of log2
    int64_t rows;        // rounded up to kRowStep
    int64_t value_stride;
    int64_t cols_stride;
};

int64_t cols_stride_of(int64_t grid_width) { return grid_width == 0 ? 0 : round_up(grid_width, 16) + 16; }

Workspace make_workspace(const AttentionBlock& block) {
    Workspace w{};
    w.rows = round_up(block.queries, kRowStep);
    w.value_stride = round_up(block.value_size, kLanes);
    w.cols_stride = cols_stride_of(block.bias_rows == nullptr ? 0 : block.grid_width);
    w.scores = block.scratch;
    w.sums = w.scores + kQueryBlock * kScoreStride;
    w.weights = w.sums + kQueryBlock * w.value_stride;
    w.maxima = w.weights + kQueryBlock * kLanes;
    w.corrections = w.maxima + kQueryBlock;
    w.bias_cols = w.corrections + kQueryBlock;
    w.q = reinterpret_cast<Operand*>(w.bias_cols + kQueryBlock * w.cols_stride);
    return w;
}

SAM3_INLINE void scale_row(float* out, const float* in, float factor, int64_t n) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store(out + i, load(in + i) * factor);
    for (; i < n; ++i) out[i] = in[i] * factor;
}

void begin(const AttentionBlock& block, const Workspace& w) {
    const float factor = block.scale * kLog2E;
    TokenCursor cursor(block.q, block.first_query);
    for (int64_t r = 0; r < w.rows; ++r) {
        const bool real = r < block.queries;
        const float* source = real ? block.q.base + cursor.next() : block.q.base;
        scale_operands(w.q + r * padded(block.head_size), source, real ? factor : 0.0F, block.head_size);
        store(w.weights + r * kLanes, Vec{});
        w.maxima[r] = minus_infinity();
        w.corrections[r] = 1.0F;
        if (block.bias_rows == nullptr || !real) continue;
        const float* cols = block.bias_cols + r * block.bias_cols_stride;
        for (int64_t i = 0; i < w.cols_stride; ++i)
            w.bias_cols[r * w.cols_stride + i] = i < block.grid_width ? cols[i] * kLog2E : 0.0F;
    }
}

void add_full_bias(float* scores, const float* bias, int64_t n) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store(scores + i, load(bias + i) * kLog2E + load(scores + i));
    for (; i < n; ++i) scores[i] += bias[i] * kLog2E;
}

// Keys first ... first + n of a grid; `rows` is the query's row of bias_rows, `cols` its scaled and padded bias_cols.
void add_grid_bias(float* scores, const float* rows, const float* cols, int64_t width, int64_t first, int64_t n) {
    const IntVec lanes = lane_indices();
    int64_t y = first / width;
    int64_t x = first % width;
    for (int64_t i = 0; i < n; ++y, x = 0) {
        const int64_t size = smaller(width - x, n - i);
        const Vec row = broadcast(rows[y] * kLog2E);
        for (int64_t k = 0; k < size; k += kLanes) {
            const Vec s = load(scores + i + k);
            const Vec biased = s + (row + load(cols + x + k));
            store(scores + i + k, lanes < static_cast<int32_t>(size - k) ? biased : s);
        }
        i += size;
    }
}

void hide_keys(float* scores, const float* limits, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) {
        const Vec limit = load(limits + i);
        store(scores + i, limit < 0.0F ? limit : load(scores + i));
    }
}

// Keys from `visible` on, up to the end of the tile's last vector.
void hide_from(float* scores, int64_t visible, int64_t whole) {
    for (int64_t i = visible; i < whole; ++i) scores[i] = minus_infinity();
}

// Scores of the keys first ... first + n -> weights relative to the row's maximum so far.
SAM3_INLINE void softmax_row(const Workspace& w, int64_t r, int64_t whole) {
    float* scores = w.scores + r * kScoreStride;
    Vec largest = load(scores);
    for (int64_t i = kLanes; i < whole; i += kLanes) largest = max(largest, load(scores + i));
    const float tile_maximum = horizontal_max(largest);
    const float before = w.maxima[r];
    const float maximum = before > tile_maximum ? before : tile_maximum;
    w.maxima[r] = maximum;
    // While every key is hidden the maximum is -infinity, and all weights must be 0, not NaN.
    const Vec reference = broadcast(maximum == minus_infinity() ? 0.0F : maximum);
    Vec total = {};
    auto* weights = reinterpret_cast<Operand*>(scores);
    for (int64_t i = 0; i < whole; i += kLanes) {
        const Vec weight = exp2_nonpositive(load(scores + i) - reference);
        store_operands(weights + i, weight);
        total = total + weight;
    }
    const Vec correction = exp2_nonpositive(broadcast(before) - reference);
    w.corrections[r] = correction[0];
    store(w.weights + r * kLanes, load(w.weights + r * kLanes) * correction + total);
}

void softmax_tile(const AttentionBlock& block, const Workspace& w, int64_t first, int64_t n) {
    const int64_t whole = round_up(n, kLanes);
    for (int64_t r = 0; r < block.queries; ++r) {
        float* scores = w.scores + r * kScoreStride;
        if (block.bias != nullptr) add_full_bias(scores, block.bias + r * block.bias_stride + first, n);
        if (block.bias_rows != nullptr)
            add_grid_bias(scores, block.bias_rows + r * block.bias_rows_stride, w.bias_cols + r * w.cols_stride,
                          block.grid_width, first, n);
        if (block.key_limits != nullptr) hide_keys(scores, block.key_limits + first, n);
        int64_t visible = n;
        if (block.causal) {
            visible = smaller(n, block.first_query + r + 1 - first);
            visible = visible < 0 ? 0 : visible;
        }
        hide_from(scores, visible, whole);
        softmax_row(w, r, whole);
    }
}

void finish(const AttentionBlock& block, const Workspace& w) {
    TokenCursor cursor(block.out_grid, block.first_query);
    for (int64_t r = 0; r < block.queries; ++r) {
        const float total = horizontal_sum(load(w.weights + r * kLanes));
        const float factor = total == 0.0F ? 0.0F : 1.0F / total;  // 0: every key is hidden
        scale_row(block.out + cursor.next(), w.sums + r * w.value_stride, factor, block.value_size);
    }
}

}  // namespace

void attention_sizes(AttentionSizes* sizes, int64_t keys, int64_t head_size, int64_t value_size, int64_t grid_width) {
    const int64_t value_stride = round_up(value_size, kLanes);
    sizes->packed_keys = round_up(round_up(keys, kLanes) * groups_of(head_size), 16);
    sizes->packed_values = round_up(groups_of(keys) * value_stride, 16);
    sizes->scratch = round_up(
        kQueryBlock * (kScoreStride + value_stride + kLanes + 2 + cols_stride_of(grid_width) + groups_of(head_size)),
        16);
}

// Panels of kPanel keys, each [groups of the head, keys of the panel, group]; the last one is only as wide as needed,
// padded with zeros.
void pack_keys(float* packed, const TokenGrid& tokens, int64_t count, int64_t first, int64_t head_size) {
    const int64_t last = smaller(count, first + kKeyTile);
    const int64_t groups = groups_of(head_size);
    TokenCursor cursor(tokens, first);
    for (int64_t start = first; start < last; start += kPanel) {
        float* panel = packed + start * groups;
        const int64_t width = smaller(kPanel, round_up(count - start, kLanes));
        for (int64_t i = 0; i < width; i += 4) {
            const float* rows[4];
            for (int k = 0; k < 4; ++k) rows[k] = tokens.base + (start + i + k < count ? cursor.next() : 0);
            transpose_rows(rows, head_size, panel + i, width);
            for (int64_t t = count; t < start + i + 4; ++t)  // keys that do not exist
                for (int64_t d = 0; d < groups && t >= start + i; ++d) panel[d * width + t - start] = 0.0F;
        }
    }
}

// Per tile of keys: panels of columns, each [groups of the tile's keys, columns of the panel, group], padded with zero
// columns.
void pack_values(float* packed, const TokenGrid& tokens, int64_t count, int64_t first, int64_t value_size) {
    const Panels panels(value_size);
    const int64_t keys = smaller(kKeyTile, count - first);
    const int64_t groups = groups_of(keys);
    float* tile = packed + first / kGroup * panels.vectors * kLanes;
    for (int64_t p = 0; p < panels.count; ++p) {
        const int64_t begin_column = panels.first(p) * kLanes;
        const int64_t width = panels.width(p) * kLanes;
        const int64_t real = smaller(width, value_size - begin_column);
        float* out = tile + begin_column * groups;
        TokenCursor cursor(tokens, first);
        for (int64_t g = 0; g < groups; ++g, out += width) {
            const float* rows[kGroup];
            for (int64_t i = 0; i < kGroup; ++i)
                rows[i] = g * kGroup + i < keys ? tokens.base + cursor.next() + begin_column : nullptr;
            for (int64_t d = 0; d < width; d += kLanes) {
                const int64_t lanes = real - d < 0 ? 0 : smaller(kLanes, real - d);
                store(out + d, group_of(rows, d, lanes));
            }
        }
    }
}

void attention_block(const AttentionBlock& block) {
    const Workspace w = make_workspace(block);
    const Panels panels(block.value_size);
    begin(block, w);
    const int64_t last_query = block.first_query + block.queries - 1;
    const int64_t keys = block.causal ? smaller(block.keys, last_query + 1) : block.keys;
    const auto keys_at = [&](int64_t key) {
        return reinterpret_cast<const Operand*>(block.packed_keys + key * groups_of(block.head_size));
    };
    for (int64_t first = 0; first < keys; first += kKeyTile) {
        const int64_t n = smaller(kKeyTile, block.keys - first);
        for (int64_t i = 0; i < n; i += kPanel) {
            const int vectors = static_cast<int>(smaller(kPanelVectors, (n - i + kLanes - 1) / kLanes));
            multiply_panel(vectors, w.q, padded(block.head_size), keys_at(first + i), groups_of(block.head_size),
                           w.scores + i, kScoreStride, w.rows, nullptr);
        }
        softmax_tile(block, w, first, n);
        const float* tile = block.packed_values + first / kGroup * panels.vectors * kLanes;
        for (int64_t p = 0; p < panels.count; ++p)
            multiply_panel(panels.width(p), reinterpret_cast<const Operand*>(w.scores), kScoreStride * kGroup,
                           reinterpret_cast<const Operand*>(tile + panels.first(p) * kLanes * groups_of(n)),
                           groups_of(n), w.sums + panels.first(p) * kLanes, w.value_stride, w.rows,
                           first == 0 ? nullptr : w.corrections);
    }
    finish(block, w);
}

}  // namespace sam3::simd::SAM3_SIMD_VARIANT
