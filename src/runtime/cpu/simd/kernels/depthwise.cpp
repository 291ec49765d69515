#include "runtime/cpu/simd/epilogue.h"
#include "runtime/cpu/simd/gemm.h"
#include "runtime/cpu/simd/kernels/functions.h"

namespace sam3::simd::SAM3_SIMD_VARIANT {

namespace {

constexpr int kPixels = 8;  // accumulated side by side, so that a weight is loaded once for all of them

// Sums of `Pixels` neighbouring outputs over the kernel's columns [first, last), for the lanes at `channel`.
template <int Pixels>
SAM3_INLINE void convolve(const DepthwiseRow& row, int64_t x, int64_t first, int64_t last, int64_t channel,
                          int64_t lanes, Vec (&sum)[Pixels]) {
    const int64_t step = row.stride * row.channels;
    for (int64_t ky = 0; ky < row.kernel_h; ++ky) {
        const float* in = row.in + ky * row.in_stride + (x * row.stride - row.padding) * row.channels + channel;
        const float* weights = row.weights + ky * row.kernel_w * row.channels + channel;
        for (int64_t kx = first; kx < last; ++kx) {
            const float* w = weights + kx * row.channels;
            const float* pixel = in + kx * row.channels;
            if (lanes == kLanes) {
                const Vec weight = load(w);
                for (int p = 0; p < Pixels; ++p) sum[p] += weight * load(pixel + p * step);
            } else {
                const Vec weight = load_first(w, lanes);
                for (int p = 0; p < Pixels; ++p) sum[p] += weight * load_first(pixel + p * step, lanes);
            }
        }
    }
}

template <Epilogue Activation>
SAM3_INLINE void finish(const DepthwiseRow& row, int64_t x, int64_t channel, int64_t lanes, Vec v) {
    const int64_t at = x * row.channels + channel;
    if (row.bias != nullptr) v += load_first(row.bias + channel, lanes);
    v = activate<Activation>(v);
    if (row.residual != nullptr) v += load_first(row.residual + at, lanes);
    store_first(row.out + at, v, lanes);
}

template <Epilogue Activation>
SAM3_INLINE void finish_whole(const DepthwiseRow& row, int64_t x, int64_t channel, Vec v) {
    const int64_t at = x * row.channels + channel;
    if (row.bias != nullptr) v += load(row.bias + channel);
    v = activate<Activation>(v);
    if (row.residual != nullptr) v += load(row.residual + at);
    store(row.out + at, v);
}

template <int Pixels, Epilogue Activation>
void pixels(const DepthwiseRow& row, int64_t x, int64_t first, int64_t last) {
    int64_t channel = 0;
    for (; channel + kLanes <= row.channels; channel += kLanes) {
        Vec sum[Pixels] = {};
        convolve(row, x, first, last, channel, kLanes, sum);
        for (int p = 0; p < Pixels; ++p) finish_whole<Activation>(row, x + p, channel, sum[p]);
    }
    if (channel < row.channels) {
        Vec sum[Pixels] = {};
        convolve(row, x, first, last, channel, row.channels - channel, sum);
        for (int p = 0; p < Pixels; ++p) finish<Activation>(row, x + p, channel, row.channels - channel, sum[p]);
    }
}

template <Epilogue Activation>
void whole_row(const DepthwiseRow& row) {
    for (int64_t x = 0; x < row.out_width;) {
        const int64_t left = x * row.stride - row.padding;  // image column under the kernel's first one
        const int64_t right = left + (kPixels - 1) * row.stride + row.kernel_w;
        if (left >= 0 && right <= row.in_width && x + kPixels <= row.out_width) {
            pixels<kPixels, Activation>(row, x, 0, row.kernel_w);
            x += kPixels;
            continue;
        }
        const int64_t first = left < 0 ? -left : 0;
        const int64_t last = left + row.kernel_w > row.in_width ? row.in_width - left : row.kernel_w;
        pixels<1, Activation>(row, x, first, last);
        ++x;
    }
}

}  // namespace

void depthwise_row(const DepthwiseRow& row) {
    switch (row.activation) {
        case Epilogue::none: return whole_row<Epilogue::none>(row);
        case Epilogue::relu: return whole_row<Epilogue::relu>(row);
        case Epilogue::gelu: return whole_row<Epilogue::gelu>(row);
        case Epilogue::gelu_tanh: return whole_row<Epilogue::gelu_tanh>(row);
        case Epilogue::sigmoid: return whole_row<Epilogue::sigmoid>(row);
        case Epilogue::silu: return whole_row<Epilogue::silu>(row);
    }
}

}  // namespace sam3::simd::SAM3_SIMD_VARIANT
