#include "runtime/cpu/simd/kernels/functions.h"
#include "runtime/cpu/simd/vec_math.h"

namespace sam3::simd::SAM3_SIMD_VARIANT {

namespace {

constexpr int64_t kUnroll = 4;

// The sum of f(vector) over a row, in kUnroll independent partial sums; f also gets the number of valid lanes.
template <typename Function>
SAM3_INLINE float sum_of(const float* x, int64_t n, Function f) {
    Vec sums[kUnroll] = {};
    int64_t i = 0;
    for (; i + kUnroll * kLanes <= n; i += kUnroll * kLanes) {
#pragma GCC unroll 4
        for (int64_t k = 0; k < kUnroll; ++k) sums[k] = sums[k] + f(load(x + i + k * kLanes), kLanes);
    }
    for (; i + kLanes <= n; i += kLanes) sums[0] = sums[0] + f(load(x + i), kLanes);
    if (i < n) sums[1] = sums[1] + f(load_first(x + i, n - i), n - i);
    return horizontal_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// Sums over the rows of up to Count vectors of channels that start at x.
template <int Count>
SAM3_INLINE void moments(float* mean, float* squares, const float* x, int64_t rows, int64_t stride,
                         float inverse_rows) {
    Vec sums[Count] = {};
    for (int64_t r = 0; r < rows; ++r) {
#pragma GCC unroll 4
        for (int k = 0; k < Count; ++k) sums[k] = sums[k] + load(x + r * stride + k * kLanes);
    }
    Vec means[Count];
    Vec totals[Count] = {};
#pragma GCC unroll 4
    for (int k = 0; k < Count; ++k) means[k] = sums[k] * inverse_rows;
    for (int64_t r = 0; r < rows; ++r) {
#pragma GCC unroll 4
        for (int k = 0; k < Count; ++k) {
            const Vec difference = load(x + r * stride + k * kLanes) - means[k];
            totals[k] = difference * difference + totals[k];
        }
    }
#pragma GCC unroll 4
    for (int k = 0; k < Count; ++k) {
        store(mean + k * kLanes, means[k]);
        store(squares + k * kLanes, totals[k]);
    }
}

}  // namespace

void layer_norm(float* out, const float* x, const float* gamma, const float* beta, int64_t n, float eps) {
    const IntVec lanes = lane_indices();
    const float count = static_cast<float>(n);
    const float mean = sum_of(x, n, [](Vec v, int64_t) { return v; }) / count;
    const float variance = sum_of(x, n,
                                  [=](Vec v, int64_t valid) {
                                      const Vec difference = lanes < static_cast<int32_t>(valid) ? v - mean : Vec{};
                                      return difference * difference;
                                  }) /
                           count;
    const float scale = 1.0F / __builtin_sqrtf(variance + eps);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
        store(out + i, (load(x + i) - mean) * scale * load(gamma + i) + load(beta + i));
    for (; i < n; ++i) out[i] = (x[i] - mean) * scale * gamma[i] + beta[i];
}

void softmax(float* out, const float* x, int64_t n) {
    Vec largest = broadcast(x[0]);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) largest = max(largest, load(x + i));
    for (; i < n; ++i) largest = max(largest, broadcast(x[i]));
    const float maximum = horizontal_max(largest);
    Vec total = {};
    for (i = 0; i + kLanes <= n; i += kLanes) {
        const Vec e = exp_normal(load(x + i) - maximum);
        store(out + i, e);
        total = total + e;
    }
    if (i < n) {
        const Vec e = exp_normal(load_first(x + i, n - i) - maximum);
        store_first(out + i, e, n - i);
        total = total + (lane_indices() < static_cast<int32_t>(n - i) ? e : Vec{});
    }
    const float factor = 1.0F / horizontal_sum(total);
    for (i = 0; i + kLanes <= n; i += kLanes) store(out + i, load(out + i) * factor);
    for (; i < n; ++i) out[i] *= factor;
}

void channel_moments(float* mean, float* squares, const float* x, int64_t rows, int64_t channels) {
    const float inverse = 1.0F / static_cast<float>(rows);
    int64_t c = 0;
    for (; c + kUnroll * kLanes <= channels; c += kUnroll * kLanes)
        moments<kUnroll>(mean + c, squares + c, x + c, rows, channels, inverse);
    for (; c + kLanes <= channels; c += kLanes) moments<1>(mean + c, squares + c, x + c, rows, channels, inverse);
    for (; c < channels; ++c) {
        float sum = 0;
        for (int64_t r = 0; r < rows; ++r) sum += x[r * channels + c];
        mean[c] = sum * inverse;
        squares[c] = 0;
        for (int64_t r = 0; r < rows; ++r) {
            const float difference = x[r * channels + c] - mean[c];
            squares[c] += difference * difference;
        }
    }
}

void normalize_channels(float* out, const float* x, const float* mean, const float* scale, const float* shift,
                        int64_t rows, int64_t channels) {
    for (int64_t r = 0; r < rows; ++r) {
        const float* from = x + r * channels;
        float* to = out + r * channels;
        int64_t c = 0;
        for (; c + kLanes <= channels; c += kLanes)
            store(to + c, (load(from + c) - load(mean + c)) * load(scale + c) + load(shift + c));
        for (; c < channels; ++c) to[c] = (from[c] - mean[c]) * scale[c] + shift[c];
    }
}

}  // namespace sam3::simd::SAM3_SIMD_VARIANT
