#include "runtime/cpu/simd/box_bias.h"

#include "runtime/cpu/simd/kernels/functions.h"
#include "runtime/cpu/simd/unroll.h"

namespace sam3::simd::SAM3_SIMD_VARIANT {

namespace {

// Heads that share the hidden layer's values; together with the pixels of a vector they hide the latency of sums.
constexpr int kHeads = 8;

template <int Heads>
SAM3_INLINE void some_heads(const BoxBiasLine& line, int64_t pixel, int64_t head) {
    const Vec near = load(line.near + pixel);
    const Vec far = load(line.far + pixel);
    const float* weight = line.weight + head * line.channels;
    Vec sum[Heads];
    SAM3_UNROLL(Heads, h, sum[h] = Vec{} + line.bias[head + h]);
    for (int64_t c = 0; c < line.channels; ++c) {
        const Vec hidden =
            near * line.hidden_weight[2 * c] + (far * line.hidden_weight[2 * c + 1] + line.hidden_bias[c]);
        const Vec active = max(hidden, Vec{});
        SAM3_UNROLL(Heads, h, sum[h] += active * weight[h * line.channels + c]);
    }
    SAM3_UNROLL(Heads, h, store(line.out + (head + h) * line.pixels + pixel, sum[h]));
}

}  // namespace

void box_bias_line(const BoxBiasLine& line) {
    for (int64_t pixel = 0; pixel < line.pixels; pixel += kLanes) {
        int64_t head = 0;
        for (; head + kHeads <= line.heads; head += kHeads) some_heads<kHeads>(line, pixel, head);
        for (; head < line.heads; ++head) some_heads<1>(line, pixel, head);
    }
}

}  // namespace sam3::simd::SAM3_SIMD_VARIANT
