#include "runtime/cpu/kernels.h"
#include "runtime/cpu/strided.h"

#include <omp.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace sam3::cpu {

namespace {

// What each output position along one axis is made of: `count` weighted input positions.
struct Axis {
    struct Position {
        int64_t first;  // input position
        int64_t step;   // to the next one: 1, or 0 where the last pixel is repeated
        int64_t count;
        const float* weights;
    };

    int64_t max_count = 1;
    std::vector<Position> positions;
    std::vector<float> weights;  // max_count for each position

    Axis(int64_t in, int64_t out, bool antialias) {
        if (in == out)
            keep(out);
        else if (antialias)
            filter(in, out);
        else
            interpolate(in, out);
        for (size_t i = 0; i < positions.size(); ++i)
            positions[i].weights = weights.data() + i * static_cast<size_t>(max_count);
    }
    Axis(const Axis&) = delete;  // positions point into weights
    Axis& operator=(const Axis&) = delete;

    bool is_identity() const { return max_count == 1; }

private:
    void keep(int64_t size) {
        for (int64_t i = 0; i < size; ++i) positions.push_back({i, 1, 1, nullptr});
        weights.assign(static_cast<size_t>(size), 1.0F);
    }

    // PyTorch's upsample_bilinear2d without align_corners. Its builds fuse the multiplication and the subtraction;
    // two roundings would move positions beyond 256 by some 1e-5 of a pixel.
    void interpolate(int64_t in, int64_t out) {
        max_count = 2;
        const float scale = static_cast<float>(in) / static_cast<float>(out);
        for (int64_t i = 0; i < out; ++i) {
            const float source = std::max(std::fma(scale, static_cast<float>(i) + 0.5F, -0.5F), 0.0F);
            const int64_t first = std::min(static_cast<int64_t>(source), in - 1);
            const float fraction = std::clamp(source - static_cast<float>(first), 0.0F, 1.0F);
            positions.push_back({first, first < in - 1 ? 1 : 0, 2, nullptr});
            weights.push_back(1.0F - fraction);
            weights.push_back(fraction);
        }
    }

    // PyTorch's _upsample_bilinear2d_aa: a triangle as wide as the step between output pixels, cut at the border.
    void filter(int64_t in, int64_t out) {
        const float scale = static_cast<float>(in) / static_cast<float>(out);
        const float support = std::max(scale, 1.0F);
        const float inverse = 1.0F / support;
        max_count = std::clamp<int64_t>(2 * static_cast<int64_t>(std::ceil(support)) + 1, 2, std::max<int64_t>(in, 2));
        weights.assign(static_cast<size_t>(out * max_count), 0.0F);
        for (int64_t i = 0; i < out; ++i) {
            const float center = scale * (static_cast<float>(i) + 0.5F);
            const int64_t first = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5F), 0);
            const int64_t last = std::min(static_cast<int64_t>(center + support + 0.5F), in);
            const int64_t count = std::clamp<int64_t>(last - first, 0, max_count);
            positions.push_back({first, 1, count, nullptr});
            float* w = weights.data() + i * max_count;
            float sum = 0;
            for (int64_t j = 0; j < count; ++j) {
                const float distance = std::fabs(static_cast<float>(j + first) - center + 0.5F) * inverse;
                w[j] = distance < 1.0F ? 1.0F - distance : 0.0F;
                sum += w[j];
            }
            for (int64_t j = 0; j < count; ++j) w[j] /= sum;
        }
    }
};

// One row [Wi, C] -> [Wo, C].
void resize_row(const Axis& axis, const float* x, int64_t channels, float* out) {
    for (const Axis::Position& p : axis.positions) {
        const float* first = x + p.first * channels;
        if (p.count == 2) {
            const float* second = first + p.step * channels;
            const float a = p.weights[0];
            const float b = p.weights[1];
#pragma omp simd
            for (int64_t c = 0; c < channels; ++c) out[c] = a * first[c] + b * second[c];
        } else {
            for (int64_t c = 0; c < channels; ++c) out[c] = p.weights[0] * first[c];
            for (int64_t j = 1; j < p.count; ++j) {
                const float* next = first + j * p.step * channels;
                const float weight = p.weights[j];
#pragma omp simd
                for (int64_t c = 0; c < channels; ++c) out[c] += weight * next[c];
            }
        }
        out += channels;
    }
}

// The same for one channel, without the inner loop.
void resize_row_1(const Axis& axis, const float* x, float* out) {
    for (const Axis::Position& p : axis.positions) {
        const float* first = x + p.first;
        float sum = p.weights[0] * first[0];
        for (int64_t j = 1; j < p.count; ++j) sum += p.weights[j] * first[j * p.step];
        *out++ = sum;
    }
}

// Input rows already resized across; neighbouring output rows share them.
class RowCache {
public:
    RowCache(const ResizeArgs& args, const Axis& across, int64_t rows_kept)
        : x_(args.x.data<float>()),
          channels_(args.x.dim(3)),
          in_row_(args.x.dim(2) * channels_),
          out_row_(args.out.dim(2) * channels_),
          across_(across),
          tags_(static_cast<size_t>(rows_kept), -1) {
        if (!across.is_identity()) rows_.resize(static_cast<size_t>(rows_kept * out_row_));
    }

    void make(int64_t row, float* out) const {
        if (across_.is_identity())
            std::memcpy(out, x_ + row * in_row_, static_cast<size_t>(in_row_) * sizeof(float));
        else if (channels_ == 1)
            resize_row_1(across_, x_ + row * in_row_, out);
        else
            resize_row(across_, x_ + row * in_row_, channels_, out);
    }
    // `row` counts over the batch. Valid until as many other rows as are kept have been asked for.
    const float* get(int64_t row) {
        if (across_.is_identity()) return x_ + row * in_row_;
        const int64_t slot = row % static_cast<int64_t>(tags_.size());
        float* out = rows_.data() + slot * out_row_;
        int64_t& tag = tags_[static_cast<size_t>(slot)];
        if (tag != row) make(row, out);
        tag = row;
        return out;
    }
    int64_t out_row() const { return out_row_; }

private:
    const float* x_;
    int64_t channels_, in_row_, out_row_;
    const Axis& across_;
    std::vector<float> rows_;
    std::vector<int64_t> tags_;
};

// One output row from input rows `base + ...`.
void blend_rows(RowCache& cache, const Axis::Position& down, int64_t base, float* out) {
    const int64_t n = cache.out_row();
    const int64_t row = base + down.first;
    if (down.count == 1) return cache.make(row, out);
    const float* first = cache.get(row);
    const float* second = cache.get(row + down.step);
    const float a = down.weights[0];
    const float b = down.weights[1];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = a * first[i] + b * second[i];
    for (int64_t j = 2; j < down.count; ++j) {
        const float* next = cache.get(row + j);
        const float weight = down.weights[j];
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) out[i] += weight * next[i];
    }
}

// Adds to row r of the batch, where there is something to add.
void add_row(const ResizeArgs& args, int64_t r) {
    if (!args.added) return;
    const int64_t n = args.out.dim(2) * args.out.dim(3);
    const float* from = args.added.data<float>() + r % (args.added.dim(0) * args.added.dim(1)) * n;
    float* to = args.out.data<float>() + r * n;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

void resize_bilinear(const ExecContext& context, const ResizeArgs& args) {
    const Axis down(args.x.dim(1), args.out.dim(1), args.antialias);
    const Axis across(args.x.dim(2), args.out.dim(2), args.antialias);
    const int64_t height = args.out.dim(1);
    const int64_t rows = args.out.dim(0) * height;
    const int threads = threads_for(context, args.out.numel());
    // Made here: memory may run out, and an exception must not leave a parallel region.
    std::vector<RowCache> caches(static_cast<size_t>(threads), RowCache(args, across, down.max_count));
    float* out = args.out.data<float>();
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        RowCache& cache = caches[static_cast<size_t>(omp_get_thread_num())];
#pragma omp for schedule(static)
        for (int64_t r = 0; r < rows; ++r) {
            blend_rows(cache, down.positions[static_cast<size_t>(r % height)], r / height * args.x.dim(1),
                       out + r * cache.out_row());
            add_row(args, r);
        }
    }
}

// PyTorch's nearest: floor(i * in / out) in float, with the two cases that it computes without one.
std::vector<int64_t> nearest_positions(int64_t in, int64_t out) {
    std::vector<int64_t> positions;
    const float scale = static_cast<float>(in) / static_cast<float>(out);
    for (int64_t i = 0; i < out; ++i) {
        if (in == out)
            positions.push_back(i);
        else if (out == 2 * in)
            positions.push_back(i / 2);
        else
            positions.push_back(std::min(static_cast<int64_t>(std::floor(static_cast<float>(i) * scale)), in - 1));
    }
    return positions;
}

void resize_nearest(const ExecContext& context, const ResizeArgs& args) {
    const std::vector<int64_t> down = nearest_positions(args.x.dim(1), args.out.dim(1));
    const std::vector<int64_t> across = nearest_positions(args.x.dim(2), args.out.dim(2));
    const int64_t channels = args.x.dim(3);
    const int64_t height = args.out.dim(1);
    const int64_t width = args.out.dim(2);
    const float* x = args.x.data<float>();
    float* out = args.out.data<float>();
    const int threads = threads_for(context, args.out.numel());
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t r = 0; r < args.out.dim(0) * height; ++r) {
        const int64_t source = r / height * args.x.dim(1) + down[static_cast<size_t>(r % height)];
        const float* from = x + source * args.x.dim(2) * channels;
        float* to = out + r * width * channels;
        if (channels == 1) {
            for (int64_t i = 0; i < width; ++i) to[i] = from[across[static_cast<size_t>(i)]];
        } else {
            for (int64_t i = 0; i < width; ++i)
                std::memcpy(to + i * channels, from + across[static_cast<size_t>(i)] * channels,
                            static_cast<size_t>(channels) * sizeof(float));
        }
        add_row(args, r);
    }
}

}  // namespace

void resize(const ExecContext& context, const ResizeArgs& args) {
    require_f32("resize", args.x);
    if (args.mode == Interpolation::nearest)
        resize_nearest(context, args);
    else
        resize_bilinear(context, args);
}

// A map at a time, so that memory for one of the large ones is enough.
void resize_above(const ExecContext& context, const ResizeAboveArgs& args) {
    const Shape size = {1, args.out.dim(1), args.out.dim(2), 1};
    const Tensor large(allocate_floats(context, size.numel()), size, DType::f32);
    for (int64_t n = 0; n < args.x.dim(0); ++n) {
        const Tensor map = args.x.slice(0, n, 1).unsqueeze(3);
        resize(context, ResizeArgs{map, Interpolation::bilinear, false, large});
        const float* value = large.data<float>();
        uint8_t* const out = args.out.data<uint8_t>() + n * size.numel();
        for (int64_t i = 0; i < size.numel(); ++i) out[i] = value[i] > args.threshold ? 1 : 0;
    }
}

}  // namespace sam3::cpu
