#include "runtime/cpu/kernels.h"
#include "runtime/cpu/simd/activation.h"
#include "runtime/device.h"

#include <algorithm>
#include <cmath>

namespace sam3::cpu {

namespace {

// The map as chunks of rows, whose size depends on the shape alone: statistics are the same for any number of threads.
struct Chunks {
    int64_t batch, rows, channels;  // rows: H * W
    int64_t size, count;            // of one batch item

    int64_t first(int64_t chunk) const { return chunk * size; }
    int64_t length(int64_t chunk) const { return std::min(size, rows - chunk * size); }
};

Chunks make_chunks(const Tensor& x) {
    Chunks chunks{x.dim(0), x.dim(1) * x.dim(2), x.dim(3), 0, 0};
    chunks.size = std::clamp<int64_t>(65536 / chunks.channels, 16, 256);  // 256 KiB: read twice from the cache
    chunks.count = (chunks.rows + chunks.size - 1) / chunks.size;
    return chunks;
}

struct Statistics {
    double mean, inverse_deviation;
};

// Joins the moments of all chunks and channels of one group (Chan's formula).
Statistics join(const Chunks& chunks, const float* moments, int64_t batch, int64_t first_channel, int64_t channels,
                double eps) {
    const float* begin = moments + batch * chunks.count * 2 * chunks.channels + first_channel;
    const double total = static_cast<double>(chunks.rows) * static_cast<double>(channels);
    double mean = 0;
    for (int64_t k = 0; k < chunks.count; ++k)
        for (int64_t c = 0; c < channels; ++c)
            mean += static_cast<double>(chunks.length(k)) * static_cast<double>(begin[k * 2 * chunks.channels + c]);
    mean /= total;
    double squares = 0;
    for (int64_t k = 0; k < chunks.count; ++k) {
        const float* means = begin + k * 2 * chunks.channels;
        for (int64_t c = 0; c < channels; ++c) {
            const double difference = static_cast<double>(means[c]) - mean;
            squares += static_cast<double>(means[chunks.channels + c]) +
                       static_cast<double>(chunks.length(k)) * difference * difference;
        }
    }
    return {mean, 1.0 / std::sqrt(squares / total + eps)};
}

std::shared_ptr<Buffer> allocate_floats(const ExecContext& context, int64_t count) {
    return context.device.allocate(static_cast<size_t>(count) * sizeof(float));
}

}  // namespace

void group_norm(const ExecContext& context, const GroupNormArgs& args) {
    constexpr int64_t kParallelElements = 32768;
    const simd::Table& table = simd::table();
    const simd::ArrayFunction activation = simd::activation_function(args.activation);
    const Chunks chunks = make_chunks(args.x);
    const int64_t channels = chunks.channels;
    const int64_t group_channels = channels / args.groups;
    const std::shared_ptr<Buffer> moments_buffer =
        allocate_floats(context, chunks.batch * chunks.count * 2 * channels);
    const std::shared_ptr<Buffer> affine_buffer = allocate_floats(context, chunks.batch * 2 * channels);
    float* const moments = static_cast<float*>(moments_buffer->data);  // [N, chunks, {mean, squares}, C]
    float* const affine = static_cast<float*>(affine_buffer->data);    // [N, {mean, scale}, C]
    const float* const x = args.x.data<float>();
    float* const out = args.out.data<float>();

#pragma omp parallel num_threads(context.threads) if (context.threads > 1 && args.x.numel() > kParallelElements)
    {
#pragma omp for
        for (int64_t i = 0; i < chunks.batch * chunks.count; ++i) {
            const int64_t row = i / chunks.count * chunks.rows + chunks.first(i % chunks.count);
            float* const mean = moments + i * 2 * channels;
            table.channel_moments(mean, mean + channels, x + row * channels, chunks.length(i % chunks.count), channels);
        }
#pragma omp for
        for (int64_t i = 0; i < chunks.batch * args.groups; ++i) {
            const int64_t first = i % args.groups * group_channels;
            const int64_t batch = i / args.groups;
            const Statistics s =
                join(chunks, moments, batch, first, group_channels, static_cast<double>(args.eps));
            for (int64_t c = first; c < first + group_channels; ++c) {
                affine[batch * 2 * channels + c] = static_cast<float>(s.mean);
                affine[(batch * 2 + 1) * channels + c] = static_cast<float>(s.inverse_deviation) * args.gamma.data<float>()[c];
            }
        }
#pragma omp for
        for (int64_t i = 0; i < chunks.batch * chunks.count; ++i) {
            const int64_t batch = i / chunks.count;
            const int64_t rows = chunks.length(i % chunks.count);
            const int64_t offset = (batch * chunks.rows + chunks.first(i % chunks.count)) * channels;
            const float* const mean = affine + batch * 2 * channels;
            table.normalize_channels(out + offset, x + offset, mean, mean + channels, args.beta.data<float>(), rows, channels);
            if (activation != nullptr) activation(out + offset, out + offset, rows * channels);
        }
    }
}

}  // namespace sam3::cpu
