#include "runtime/cpu/simd/box_bias.h"
#include "runtime/cpu/kernels.h"
#include "runtime/cpu/simd/simd.h"
#include "runtime/cpu/strided.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace sam3::cpu {

namespace {

float log_distance(float distance) {
    const float magnitude = std::log2(std::abs(8.0F * distance) + 1.0F) / 3.0F;
    return distance < 0 ? -magnitude : magnitude;
}

// The bias of columns (axis 0) or of rows (axis 1).
void axis_bias(const ExecContext& context, const Tensor& boxes, int axis, const BoxBiasWeights& weights,
               const Tensor& out) {
    const int64_t heads = out.dim(1);
    const int64_t queries = out.dim(2) - 1;
    const int64_t pixels = out.dim(3);
    const int64_t padded =
        (pixels + simd::BoxBiasLine::kPadding - 1) / simd::BoxBiasLine::kPadding * simd::BoxBiasLine::kPadding;
    const simd::Table& table = simd::table();
    const int64_t channels = weights.hidden_weight.dim(0);
    const int threads = threads_for(context, out.numel() * channels);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        std::vector<float> distances(static_cast<size_t>(2 * padded));
        std::vector<float> result(static_cast<size_t>(heads * padded));
        simd::BoxBiasLine line{distances.data(),
                               distances.data() + padded,
                               padded,
                               weights.hidden_weight.data<float>(),
                               weights.hidden_bias.data<float>(),
                               weights.weight.data<float>(),
                               weights.bias.data<float>(),
                               channels,
                               heads,
                               result.data()};
#pragma omp for schedule(static)
        for (int64_t row = 0; row < out.dim(0) * (1 + queries); ++row) {
            const int64_t image = row / (1 + queries);
            const int64_t query = row % (1 + queries);  // 0: the token without a box
            if (query > 0) {
                const float* box = boxes.data<float>() + image * boxes.stride(0) + (query - 1) * boxes.stride(1);
                const float centre = box[axis];
                const float half = 0.5F * box[2 + axis];
                for (int64_t k = 0; k < pixels; ++k) {
                    const float place = static_cast<float>(k) / static_cast<float>(pixels);
                    distances[static_cast<size_t>(k)] = log_distance(place - (centre - half));
                    distances[static_cast<size_t>(padded + k)] = log_distance(place - (centre + half));
                }
                table.box_bias_line(line);
            }
            for (int64_t head = 0; head < heads; ++head) {
                float* to = out.data<float>() + ((image * heads + head) * (1 + queries) + query) * pixels;
                if (query > 0)
                    std::copy_n(result.data() + head * padded, pixels, to);
                else
                    std::fill_n(to, pixels, 0.0F);
            }
        }
    }
}

}  // namespace

void box_bias(const ExecContext& context, const BoxBiasArgs& args) {
    axis_bias(context, args.boxes, 0, args.to_cols, args.cols);
    axis_bias(context, args.boxes, 1, args.to_rows, args.rows);
}

}  // namespace sam3::cpu
