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

// Mean and scale of every channel of one group: [N, {mean, scale}, C].
void write_affine(const GroupNormArgs& args, const Chunks& chunks, const float* moments, int64_t batch, int64_t group,
                  float* affine) {
    const int64_t width = chunks.channels / args.groups;
    const Statistics s = join(chunks, moments, batch, group * width, width, static_cast<double>(args.eps));
    float* const mean = affine + batch * 2 * chunks.channels;
    for (int64_t c = group * width; c < (group + 1) * width; ++c) {
        mean[c] = static_cast<float>(s.mean);
        mean[chunks.channels + c] = static_cast<float>(s.inverse_deviation) * args.gamma.data<float>()[c];
    }
}

}  // namespace

void group_norm(const ExecContext& context, const GroupNormArgs& args) {
    constexpr int64_t kWorthThreads = 32768;
    const simd::Table& table = simd::table();
    const simd::ArrayFunction activation = simd::activation_function(args.activation);
    const Chunks chunks = make_chunks(args.x);
    const int64_t channels = chunks.channels;
    const int64_t all_chunks = chunks.batch * chunks.count;
    const std::shared_ptr<Buffer> moments_buffer = allocate_floats(context, all_chunks * 2 * channels);
    const std::shared_ptr<Buffer> affine_buffer = allocate_floats(context, chunks.batch * 2 * channels);
    float* const moments = static_cast<float*>(moments_buffer->data);  // [N, chunks, {mean, squares}, C]
    float* const affine = static_cast<float*>(affine_buffer->data);
    const auto offset_of = [&](int64_t i) {  // of chunk i in x and out
        return (i / chunks.count * chunks.rows + i % chunks.count * chunks.size) * channels;
    };

#pragma omp parallel num_threads(context.threads) if (context.threads > 1 && args.x.numel() > kWorthThreads)
    {
#pragma omp for
        for (int64_t i = 0; i < all_chunks; ++i) {
            float* const mean = moments + i * 2 * channels;
            table.channel_moments(mean, mean + channels, args.x.data<float>() + offset_of(i),
                                  chunks.length(i % chunks.count), channels);
        }
#pragma omp for
        for (int64_t i = 0; i < chunks.batch * args.groups; ++i)
            write_affine(args, chunks, moments, i / args.groups, i % args.groups, affine);
#pragma omp for
        for (int64_t i = 0; i < all_chunks; ++i) {
            const float* const mean = affine + i / chunks.count * 2 * channels;
            const int64_t rows = chunks.length(i % chunks.count);
            float* const out = args.out.data<float>() + offset_of(i);
            table.normalize_channels(out, args.x.data<float>() + offset_of(i), mean, mean + channels,
                                     args.beta.data<float>(), rows, channels);
            if (activation != nullptr) activation(out, out, rows * channels);
        }
    }
}

}  // namespace sam3::cpu
