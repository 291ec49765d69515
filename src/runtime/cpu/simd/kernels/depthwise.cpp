#include "runtime/cpu/simd/epilogue.h"
#include "runtime/cpu/simd/gemm.h"
#include "runtime/cpu/simd/kernels/functions.h"
#include "runtime/cpu/simd/unroll.h"

namespace sam3::simd::SAM3_SIMD_VARIANT {

namespace {

// Independent sums hide the latency of a multiply-add: of neighbouring pixels, which share the weights, or at the
// image's edge, where each pixel sees another part of the kernel, of neighbouring channels.
constexpr int kPixels = 8;
constexpr int kEdgeVectors = 4;

// Outputs of `Pixels` pixels and `Vectors` vectors of channels over the kernel's columns [first, last).
// Whole: the vectors have all their lanes.
template <int Pixels, int Vectors, bool Whole, Epilogue Activation>
SAM3_INLINE void convolve(const DepthwiseRow& row, int64_t x, int64_t first, int64_t last, int64_t channel) {
    const int64_t lanes = Whole ? kLanes : row.channels - channel;
    const auto get = [&](const float* from) { return Whole ? load(from) : load_first(from, lanes); };
    const int64_t step = row.stride * row.channels;
    Vec sum[Pixels][Vectors];
    SAM3_UNROLL(Pixels, p, SAM3_UNROLL(Vectors, v, sum[p][v] = Vec{}));
    for (int64_t ky = 0; ky < row.kernel_h; ++ky) {
        const float* in = row.in + ky * row.in_stride + (x * row.stride - row.padding) * row.channels + channel;
        const float* weights = row.weights + ky * row.kernel_w * row.channels + channel;
        for (int64_t kx = first; kx < last; ++kx) {
            const float* pixel = in + kx * row.channels;
            const float* tap = weights + kx * row.channels;
            SAM3_UNROLL(Vectors, v, const Vec weight = get(tap + v * kLanes);
                        SAM3_UNROLL(Pixels, p, sum[p][v] += weight * get(pixel + p * step + v * kLanes)));
        }
    }
    SAM3_UNROLL(Vectors, v, const int64_t c = channel + v * kLanes;
                const Vec bias = row.bias == nullptr ? Vec{} : get(row.bias + c);
                SAM3_UNROLL(Pixels, p, const int64_t at = (x + p) * row.channels + c;
                            Vec result = activate<Activation>(sum[p][v] + bias);
                            if (row.residual != nullptr) result += get(row.residual + at);
                            if (Whole) store(row.out + at, result); else store_first(row.out + at, result, lanes)));
}

template <int Pixels, int Vectors, Epilogue Activation>
void pixels(const DepthwiseRow& row, int64_t x, int64_t first, int64_t last) {
    int64_t channel = 0;
    for (; channel + Vectors * kLanes <= row.channels; channel += Vectors * kLanes)
        convolve<Pixels, Vectors, true, Activation>(row, x, first, last, channel);
    if constexpr (Vectors > 1)
        for (; channel + kLanes <= row.channels; channel += kLanes)
            convolve<Pixels, 1, true, Activation>(row, x, first, last, channel);
    if (channel < row.channels) convolve<Pixels, 1, false, Activation>(row, x, first, last, channel);
}

template <Epilogue Activation>
void whole_row(const DepthwiseRow& row) {
    for (int64_t x = 0; x < row.out_width;) {
        const int64_t left = x * row.stride - row.padding;  // image column under the kernel's first one
        const int64_t right = left + (kPixels - 1) * row.stride + row.kernel_w;
        if (left >= 0 && right <= row.in_width && x + kPixels <= row.out_width) {
            pixels<kPixels, 1, Activation>(row, x, 0, row.kernel_w);
            x += kPixels;
            continue;
        }
        const int64_t first = left < 0 ? -left : 0;
        const int64_t last = left + row.kernel_w > row.in_width ? row.in_width - left : row.kernel_w;
        pixels<1, kEdgeVectors, Activation>(row, x, first, last);
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
