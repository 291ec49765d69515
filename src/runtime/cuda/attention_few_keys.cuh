#pragma once

#include "runtime/cuda/attention.cuh"
#include "runtime/cuda/mma.cuh"

// Attention to a few keys, as to the words of a phrase: a warp has 16 queries and all the keys of a head in registers.
// Nothing goes through shared memory, all loads start at once, and the code is short: such a kernel is over before a
// long one has been fetched.
//
// The order of channels in the products does not matter as long as both sides agree on it, so each lane takes
// neighbouring ones. With g = lane / 4 and t = lane % 4 it holds quarter t of the channels of queries g and g + 8 and
// of key g of every eight, and eighth g of the channels of values 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of every sixteen;
// its results are quarter t again.
namespace sam3::cuda::few_keys {

constexpr int kMostKeys = 64;
constexpr float kLog2E = 1.44269504088896340736F;

// Rows of one tensor, in elements.
struct Rows {
    int64_t image = 0, token = 0;

    Rows() = default;
    explicit Rows(const Tensor& x) : image(x.stride(0)), token(x.stride(1)) {}
    __device__ int64_t at(int n, int row) const { return n * image + row * token; }
};

struct FewKeys {
    const bf16 *q, *k, *v;
    void* out;
    Rows q_rows, k_rows, v_rows, out_rows;
    const uint8_t* key_mask;
    int64_t mask_image;
    bool causal;
    int queries, keys;
    float scale_log2;
};

// Neighbouring pairs of channels, a register each; zeros where !valid.
template <int kWords>
__device__ inline void load_words(unsigned (&to)[kWords], const bf16* from, bool valid) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) to[i] = 0;
    if (!valid) return;
    if constexpr (kWords == 1) {
        to[0] = *reinterpret_cast<const unsigned*>(from);
    } else if constexpr (kWords == 2) {
        const uint2 bits = *reinterpret_cast<const uint2*>(from);
        to[0] = bits.x;
        to[1] = bits.y;
    } else {
#pragma unroll
        for (int i = 0; i < kWords; i += 4) {
            const uint4 bits = reinterpret_cast<const uint4*>(from)[i / 4];
            to[i] = bits.x;
            to[i + 1] = bits.y;
            to[i + 2] = bits.z;
            to[i + 3] = bits.w;
        }
    }
}

// Which of the keys may be seen by any query: a bit each.
__device__ inline uint64_t seen_keys(const FewKeys& a, int image, int lane) {
    unsigned half[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int key = i * 32 + lane;
        bool seen = key < a.keys;
        if (a.key_mask != nullptr && seen) seen = a.key_mask[image * a.mask_image + key] != 0;
        half[i] = __ballot_sync(0xffffffffU, seen);
    }
    return static_cast<uint64_t>(half[1]) << 32 | half[0];
}

// Scores of one row of a warp's tile become weights; returns what to multiply their sum by. `seen` starts with the
// lane's own first key.
template <int kKeyTiles>
__device__ inline float weigh_row(float (&score)[kKeyTiles][4], int half, uint64_t seen, float scale_log2) {
    float top = -INFINITY;
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float& x = score[n][2 * half + i];
            x = (seen >> (n * 8 + i) & 1U) != 0 ? x * scale_log2 : -INFINITY;
            top = fmaxf(top, x);
        }
    top = fmaxf(top, __shfl_xor_sync(0xffffffffU, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffU, top, 2));
    const float base = top == -INFINITY ? 0.0F : top;
    float sum = 0;
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
            score[n][i] = exp2_fast(score[n][i] - base);
            sum += score[n][i];
        }
    sum += __shfl_xor_sync(0xffffffffU, sum, 1);
    sum += __shfl_xor_sync(0xffffffffU, sum, 2);
    return sum > 0 ? 1.0F / sum : 0.0F;
}

// What a warp does: 16 queries from `first` on, which must be there, of one head and image.
template <int kSize, int kKeyTiles, typename Out>
__device__ inline void attend(const FewKeys& a, int head, int image, int first) {
    constexpr int kWords = kSize / 8;        // of a lane's quarter
    constexpr int kValueWords = kSize / 16;  // of its eighth
    constexpr int kValueTiles = kSize / 8;
    const int lane = threadIdx.x % 32;
    const int g = lane / 4;
    const int t = lane % 4;
    const int quarter = head * kSize + t * (kSize / 4);
    const int eighth = head * kSize + g * (kSize / 8);
    unsigned query[2][kWords];
    unsigned key[kKeyTiles][kWords];
    unsigned value[kKeyTiles / 2][4][kValueWords];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int row = first + g + 8 * i;
        load_words(query[i], a.q + a.q_rows.at(image, row) + quarter, row < a.queries);
    }
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
        const int row = n * 8 + g;
        load_words(key[n], a.k + a.k_rows.at(image, row) + quarter, row < a.keys);
    }
#pragma unroll
    for (int m = 0; m < kKeyTiles / 2; ++m)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int row = m * 16 + j / 2 * 8 + t * 2 + j % 2;
            load_words(value[m][j], a.v + a.v_rows.at(image, row) + eighth, row < a.keys);
        }
    const uint64_t seen = seen_keys(a, image, lane);

    float score[kKeyTiles][4] = {};
#pragma unroll
    for (int s = 0; s < kSize / 16; ++s) {
        const unsigned rows[4] = {query[0][2 * s], query[1][2 * s], query[0][2 * s + 1], query[1][2 * s + 1]};
#pragma unroll
        for (int n = 0; n < kKeyTiles; ++n) multiply_add(score[n], rows, key[n][2 * s], key[n][2 * s + 1]);
    }

    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = first + g + 8 * half;
        const uint64_t up_to_row = a.causal && row < kMostKeys - 1 ? (uint64_t{2} << row) - 1 : ~uint64_t{0};
        factor[half] = weigh_row(score, half, (seen & up_to_row) >> (2 * t), a.scale_log2);
    }

    float sums[kValueTiles][4] = {};
#pragma unroll
    for (int m = 0; m < kKeyTiles / 2; ++m) {
        const unsigned weights[4] = {pack(score[2 * m][0], score[2 * m][1]), pack(score[2 * m][2], score[2 * m][3]),
                                     pack(score[2 * m + 1][0], score[2 * m + 1][1]),
                                     pack(score[2 * m + 1][2], score[2 * m + 1][3])};
#pragma unroll
        for (int i = 0; i < kValueWords; ++i) {
            constexpr unsigned kLow = 0x5410;  // of two pairs of channels, the first ones, or the second ones
            constexpr unsigned kHigh = 0x7632;
            const auto& v = value[m];
            multiply_add(sums[2 * i], weights, __byte_perm(v[0][i], v[1][i], kLow),
                         __byte_perm(v[2][i], v[3][i], kLow));
            multiply_add(sums[2 * i + 1], weights, __byte_perm(v[0][i], v[1][i], kHigh),
                         __byte_perm(v[2][i], v[3][i], kHigh));
        }
    }

#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = first + g + 8 * half;
        if (row >= a.queries) continue;
        Out* const to = static_cast<Out*>(a.out) + a.out_rows.at(image, row) + quarter;
        const float f = factor[half];
        float result[kSize / 4];
#pragma unroll
        for (int j = 0; j < kValueTiles; ++j) {
            result[j] = sums[j][2 * half] * f;
            result[kValueTiles + j] = sums[j][2 * half + 1] * f;
        }
#pragma unroll
        for (int i = 0; i < kSize / 4; i += 4) store4(to + i, {result[i], result[i + 1], result[i + 2], result[i + 3]});
    }
}

}  // namespace sam3::cuda::few_keys
