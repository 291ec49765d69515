#include "runtime/cpu/kernels.h"
#include "runtime/cpu/strided.h"

#include <omp.h>

#include <cmath>
#include <limits>
#include <vector>

namespace sam3::cpu {

namespace {

// One side of a box in feature-map pixels, cut into bins of `samples` points each. torchvision's arithmetic.
struct Side {
    float start, bin;
    int64_t samples;

    Side(float low, float high, int64_t bins, const RoiAlignArgs& args) {
        const float offset = args.aligned ? 0.5F : 0.0F;
        start = low * args.spatial_scale - offset;
        float length = high * args.spatial_scale - offset - start;
        if (!args.aligned) length = std::max(length, 1.0F);
        bin = length / static_cast<float>(bins);
        constexpr float kMany = 0x1.0p40F;  // keeps absurdly large boxes inside the integers
        samples = args.sampling_ratio > 0 ? args.sampling_ratio
                                          : static_cast<int64_t>(std::clamp(std::ceil(bin), 0.0F, kMany));
    }
    bool is_finite() const { return std::isfinite(start) && std::isfinite(bin); }
    float sample(int64_t bin_index, int64_t i) const {
        return start + static_cast<float>(bin_index) * bin +
               (static_cast<float>(i) + 0.5F) * bin / static_cast<float>(samples);
    }
    // The samples of a bin that can lie on [-1, size], with some to spare; all others count as zero.
    std::pair<int64_t, int64_t> useful(int64_t bin_index, int64_t size) const {
        if (samples <= 4 * size || bin <= 0) return {0, samples};
        const double step = static_cast<double>(bin) / static_cast<double>(samples);
        const double bin_start = static_cast<double>(start) + static_cast<double>(bin_index) * static_cast<double>(bin);
        const double limit = static_cast<double>(samples);
        const double first = std::clamp((-1.0 - bin_start) / step - 4.0, 0.0, limit);
        const double last = std::clamp((static_cast<double>(size) - bin_start) / step + 4.0, 0.0, limit);
        return {static_cast<int64_t>(first), static_cast<int64_t>(last)};
    }
};

// Bilinear sampling and averaging are separable, so a bin is a weighted sum of rows of weighted sums of columns.
// This adds up the weight of each pixel along one axis for one bin; [first, end) are the pixels with a weight.
struct Span {
    int64_t first = 0, end = 0;
};

Span add_weights(const Side& side, int64_t bin_index, int64_t size, float* weights) {
    std::fill_n(weights, size, 0.0F);
    Span span{size, 0};
    const auto [begin, end] = side.useful(bin_index, size);
    for (int64_t i = begin; i < end; ++i) {
        const float position = side.sample(bin_index, i);
        if (position < -1.0F || position > static_cast<float>(size)) continue;
        const float inside = std::max(position, 0.0F);
        const int64_t low = std::min(static_cast<int64_t>(inside), size - 1);
        const int64_t high = std::min(low + 1, size - 1);
        const float fraction = low == size - 1 ? 0.0F : inside - static_cast<float>(low);
        weights[low] += 1.0F - fraction;
        weights[high] += fraction;
        span.first = std::min(span.first, low);
        span.end = std::max(span.end, high + 1);
    }
    return span;
}

// Memory of one thread.
struct Scratch {
    std::vector<float> row_weights;     // [H]
    std::vector<float> column_weights;  // [Wo, W]
    std::vector<Span> columns;          // [Wo]
    std::vector<float> sum;             // [W, C]: the rows of a bin, added up

    explicit Scratch(const RoiAlignArgs& args)
        : row_weights(static_cast<size_t>(args.x.dim(1))),
          column_weights(static_cast<size_t>(args.out.dim(2) * args.x.dim(2))),
          columns(static_cast<size_t>(args.out.dim(2))),
          sum(static_cast<size_t>(args.x.dim(2) * args.x.dim(3))) {}
};

void add_scaled(const float* x, float weight, float* out, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] += weight * x[i];
}

// One row of bins: out [Wo, C].
void align_row(const RoiAlignArgs& args, const float* box, int64_t bin_row, Scratch& scratch, float* out) {
    const int64_t height = args.x.dim(1);
    const int64_t width = args.x.dim(2);
    const int64_t channels = args.x.dim(3);
    const int64_t bins = args.out.dim(2);
    const Side vertical(box[2], box[4], args.out.dim(1), args);
    const Side horizontal(box[1], box[3], bins, args);
    if (!vertical.is_finite() || !horizontal.is_finite()) {
        std::fill_n(out, bins * channels, std::numeric_limits<float>::quiet_NaN());
        return;
    }
    std::fill_n(out, bins * channels, 0.0F);
    const Span rows = add_weights(vertical, bin_row, height, scratch.row_weights.data());
    Span all{width, 0};
    for (int64_t b = 0; b < bins; ++b) {
        const Span span = add_weights(horizontal, b, width, scratch.column_weights.data() + b * width);
        scratch.columns[static_cast<size_t>(b)] = span;
        all = {std::min(all.first, span.first), std::max(all.end, span.end)};
    }
    if (rows.first >= rows.end || all.first >= all.end) return;

    const float count = std::max(static_cast<float>(vertical.samples) * static_cast<float>(horizontal.samples), 1.0F);
    const float* map = args.x.data<float>() + static_cast<int64_t>(box[0]) * height * width * channels;
    float* sum = scratch.sum.data();
    std::fill(sum + all.first * channels, sum + all.end * channels, 0.0F);
    for (int64_t y = rows.first; y < rows.end; ++y)
        add_scaled(map + (y * width + all.first) * channels, scratch.row_weights[static_cast<size_t>(y)] / count,
                   sum + all.first * channels, (all.end - all.first) * channels);
    for (int64_t b = 0; b < bins; ++b) {
        const Span span = scratch.columns[static_cast<size_t>(b)];
        const float* weights = scratch.column_weights.data() + b * width;
        for (int64_t x = span.first; x < span.end; ++x)
            add_scaled(sum + x * channels, weights[x], out + b * channels, channels);
    }
}

}  // namespace

void roi_align(const ExecContext& context, const RoiAlignArgs& args) {
    require_f32("roi_align", args.x);
    require_f32("roi_align", args.boxes);
    const float* boxes = args.boxes.data<float>();
    for (int64_t k = 0; k < args.boxes.dim(0); ++k)
        if (!(boxes[5 * k] >= 0 && boxes[5 * k] < static_cast<float>(args.x.dim(0))))
            fail("roi_align: box ", k, " belongs to image ", boxes[5 * k], " of a batch of ", args.x.dim(0));
    const int64_t rows = args.out.dim(1);
    const int64_t row_size = args.out.dim(2) * args.out.dim(3);
    float* out = args.out.data<float>();
    const int threads = threads_for(context, 4 * args.out.numel());
    std::vector<Scratch> scratch(static_cast<size_t>(threads), Scratch(args));
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        Scratch& own = scratch[static_cast<size_t>(omp_get_thread_num())];
#pragma omp for schedule(dynamic)
        for (int64_t r = 0; r < args.boxes.dim(0) * rows; ++r)
            align_row(args, boxes + r / rows * 5, r % rows, own, out + r * row_size);
    }
}

}  // namespace sam3::cpu
