#include "mask/upsample.h"

#include "util/error.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cmath>

namespace sam3 {
namespace {

constexpr int64_t kParallelPixels = 1 << 16;

// What one output sample of an axis is made of.
struct Source {
    int first = 0, second = 0;
    float weight_first = 1, weight_second = 0;
};

std::vector<Source> make_sources(int input, int output) {
    std::vector<Source> sources(static_cast<size_t>(output));
    const float scale = static_cast<float>(input) / static_cast<float>(output);
    for (int i = 0; i < output; ++i) {
        Source& source = sources[static_cast<size_t>(i)];
        if (input == output) {
            source = {i, i, 1.0F, 0.0F};
            continue;
        }
        // One rounding, as torch's builds have it: far from the origin a second one moves the position noticeably.
        const float position = std::max(0.0F, std::fma(scale, static_cast<float>(i) + 0.5F, -0.5F));
        source.first = std::min(static_cast<int>(position), input - 1);
        source.second = std::min(source.first + 1, input - 1);
        source.weight_second = std::clamp(position - static_cast<float>(source.first), 0.0F, 1.0F);
        source.weight_first = 1.0F - source.weight_second;
    }
    return sources;
}

// Input rows stretched to the output's width; two are kept, since neighbouring output rows use the same ones.
class StretchedRows {
public:
    StretchedRows(const FloatMap& map, const std::vector<Source>& columns) : map_(map), columns_(columns) {
        for (auto& row : rows_) row.resize(columns.size());
    }

    const float* get(int y) {
        for (size_t i = 0; i < 2; ++i)
            if (held_[i] == y) return rows_[i].data();
        const size_t older = held_[0] <= held_[1] ? 0 : 1;
        stretch(y, rows_[older].data());
        held_[older] = y;
        return rows_[older].data();
    }

private:
    void stretch(int y, float* out) const {
        const float* row = map_.data + static_cast<size_t>(y) * static_cast<size_t>(map_.stride);
        for (size_t x = 0; x < columns_.size(); ++x) {
            const Source& source = columns_[x];
            out[x] = row[source.first] * source.weight_first + row[source.second] * source.weight_second;
        }
    }

    const FloatMap& map_;
    const std::vector<Source>& columns_;
    std::vector<float> rows_[2];
    int held_[2] = {-1, -1};
};

FloatMap checked(FloatMap map, int width, int height) {
    if (map.stride == 0) map.stride = map.width;
    if (map.data == nullptr || map.width < 1 || map.height < 1 || map.stride < map.width)
        fail("expected a map of at least 1 x 1 values to upsample, found ", map.width, " x ", map.height);
    if (width < 1 || height < 1) fail("expected a size of at least 1 x 1 to upsample to, found ", width, " x ", height);
    return map;
}

// Calls emit(y, first, second, weight_first, weight_second): row y is the weighted sum of the two stretched rows.
template <typename Emit>
void for_each_row(const FloatMap& map, int width, int height, int threads, const Emit& emit) {
    const std::vector<Source> columns = make_sources(map.width, width);
    const std::vector<Source> rows = make_sources(map.height, height);
    const int wanted = threads > 0 ? threads : omp_get_max_threads();
    const int team = static_cast<int64_t>(width) * height < kParallelPixels ? 1 : wanted;
#pragma omp parallel num_threads(team)
    {
        StretchedRows stretched(map, columns);
#pragma omp for schedule(static)
        for (int y = 0; y < height; ++y) {
            const Source& source = rows[static_cast<size_t>(y)];
            const float* first = stretched.get(source.first);
            const float* second = stretched.get(source.second);
            emit(y, first, second, source.weight_first, source.weight_second);
        }
    }
}

std::vector<float> sigmoid(const FloatMap& map) {
    std::vector<float> out(static_cast<size_t>(map.width) * static_cast<size_t>(map.height));
    for (int y = 0; y < map.height; ++y) {
        const float* from = map.data + static_cast<size_t>(y) * static_cast<size_t>(map.stride);
        float* to = out.data() + static_cast<size_t>(y) * static_cast<size_t>(map.width);
        for (int x = 0; x < map.width; ++x) to[x] = 1.0F / (1.0F + std::exp(-from[x]));
    }
    return out;
}

}  // namespace

Mask upsample_mask(const FloatMap& logits, int width, int height, const UpsampleOptions& options) {
    FloatMap map = checked(logits, width, height);
    std::vector<float> probabilities;
    if (options.sigmoid_first) {
        probabilities = sigmoid(map);
        map = {probabilities.data(), map.width, map.height, map.width};
    }
    Mask mask(width, height);
    const float threshold = options.threshold;
    for_each_row(map, width, height, options.threads,
                 [&](int y, const float* first, const float* second, float weight_first, float weight_second) {
                     uint8_t* out = mask.data.data() + mask.index(0, y);
                     for (int x = 0; x < width; ++x)
                         out[x] = first[x] * weight_first + second[x] * weight_second > threshold ? 1 : 0;
                 });
    return mask;
}

StableMask upsample_stable_mask(const FloatMap& logits, int width, int height, float offset, int threads) {
    const FloatMap map = checked(logits, width, height);
    Mask mask(width, height);
    std::atomic<int64_t> inner = 0;
    std::atomic<int64_t> outer = 0;
    for_each_row(map, width, height, threads,
                 [&](int y, const float* first, const float* second, float weight_first, float weight_second) {
                     uint8_t* out = mask.data.data() + mask.index(0, y);
                     int row_inner = 0;
                     int row_outer = 0;
                     for (int x = 0; x < width; ++x) {
                         const float value = first[x] * weight_first + second[x] * weight_second;
                         out[x] = value > 0.0F ? 1 : 0;
                         row_inner += value > offset ? 1 : 0;
                         row_outer += value > -offset ? 1 : 0;
                     }
                     inner += row_inner;
                     outer += row_outer;
                 });
    return {std::move(mask), outer > 0 ? static_cast<float>(inner) / static_cast<float>(outer) : 0.0F};
}

std::vector<float> upsample_bilinear(const FloatMap& map, int width, int height, int threads) {
    const FloatMap source = checked(map, width, height);
    std::vector<float> values(static_cast<size_t>(width) * static_cast<size_t>(height));
    for_each_row(source, width, height, threads,
                 [&](int y, const float* first, const float* second, float weight_first, float weight_second) {
                     float* out = values.data() + static_cast<size_t>(y) * static_cast<size_t>(width);
                     for (int x = 0; x < width; ++x) out[x] = first[x] * weight_first + second[x] * weight_second;
                 });
    return values;
}

}  // namespace sam3
