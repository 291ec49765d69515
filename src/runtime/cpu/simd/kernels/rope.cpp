#include "runtime/cpu/simd/kernels/functions.h"

namespace sam3::simd::SAM3_SIMD_VARIANT {

void rotate_pairs(float* x, const float* angles, int64_t heads, int64_t head_size) {
    const IntVec odd = (lane_indices() & 1) != 0;
    int64_t d = 0;
    for (; d + kLanes <= head_size; d += kLanes) {
        // (a, b) -> (a cos - b sin, b cos + a sin), the pairs interleaved
        const Vec table = load(angles + d);
        const Vec swapped = exchange<1>(table);
        const Vec cosine = odd ? swapped : table;
        const Vec sine = odd ? table : -swapped;
        for (int64_t h = 0; h < heads; ++h) {
            float* pair = x + h * head_size + d;
            const Vec v = load(pair);
            store(pair, v * cosine + exchange<1>(v) * sine);
        }
    }
    for (; d < head_size; d += 2) {
        const float cosine = angles[d];
        const float sine = angles[d + 1];
        for (int64_t h = 0; h < heads; ++h) {
            float* pair = x + h * head_size + d;
            const float a = pair[0];
            const float b = pair[1];
            pair[0] = a * cosine - b * sine;
            pair[1] = b * cosine + a * sine;
        }
    }
}

}  // namespace sam3::simd::SAM3_SIMD_VARIANT
