#include "runtime/cpu/kernels.h"
#include "runtime/cpu/strided.h"

#include <cmath>

namespace sam3::cpu {

namespace {

// A coordinate in [-1, 1] between two pixels; a pixel outside the map has the weight zero.
struct Between {
    int64_t low = 0, high = 0;
    float low_weight = 0, high_weight = 0;

    Between(float coordinate, int64_t size) {
        const float position = ((coordinate + 1.0F) * static_cast<float>(size) - 1.0F) / 2.0F;
        if (!(position > -1.0F && position < static_cast<float>(size))) return;  // NaN and infinity, too
        const float floor = std::floor(position);
        const int64_t pixel = static_cast<int64_t>(floor);
        const float fraction = position - floor;
        low_weight = pixel >= 0 ? 1.0F - fraction : 0.0F;
        high_weight = pixel + 1 < size ? fraction : 0.0F;
        low = std::max<int64_t>(pixel, 0);
        high = std::min(pixel + 1, size - 1);
    }
};

void sample(const float* map, int64_t height, int64_t width, int64_t channels, const float* point, float* out) {
    const Between x(point[0], width);
    const Between y(point[1], height);
    std::fill_n(out, channels, 0.0F);
    const auto add = [&](int64_t row, int64_t column, float weight) {
        if (weight == 0) return;
        const float* pixel = map + (row * width + column) * channels;
#pragma omp simd
        for (int64_t c = 0; c < channels; ++c) out[c] += weight * pixel[c];
    };
    add(y.low, x.low, y.low_weight * x.low_weight);
    add(y.low, x.high, y.low_weight * x.high_weight);
    add(y.high, x.low, y.high_weight * x.low_weight);
    add(y.high, x.high, y.high_weight * x.high_weight);
}

}  // namespace

void grid_sample(const ExecContext& context, const GridSampleArgs& args) {
    require_f32("grid_sample", args.x);
    require_f32("grid_sample", args.grid);
    const int64_t height = args.x.dim(1);
    const int64_t width = args.x.dim(2);
    const int64_t channels = args.x.dim(3);
    const int64_t points = args.grid.dim(1);
    const float* x = args.x.data<float>();
    const float* grid = args.grid.data<float>();
    float* out = args.out.data<float>();
    const int threads = threads_for(context, 4 * args.out.numel());
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < args.grid.dim(0) * points; ++i)
        sample(x + i / points * height * width * channels, height, width, channels, grid + 2 * i, out + i * channels);
}

}  // namespace sam3::cpu
