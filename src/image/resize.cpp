#include "image/resize.h"

#include "image/resample_rows.h"
#include "util/error.h"

#include <omp.h>

#include <algorithm>
#include <cmath>

namespace sam3 {
namespace {

constexpr int kPillowPrecision = 22;  // 32 bits less 8 of the sample less 2 of headroom for negative lobes
constexpr int kParallelPixels = 1 << 15;

double bilinear(double x) {
    x = std::abs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

// Keys' cubic convolution with a = -0.5.
double bicubic(double x) {
    constexpr double a = -0.5;
    x = std::abs(x);
    if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
    return 0.0;
}

// Which input samples an output sample is made of, with weights as real numbers that sum to 1.
struct RealTaps {
    int capacity = 0;  // weights stored per output
    std::vector<int> first, count;
    std::vector<double> weights;
    double largest = 0.0;
};

RealTaps real_taps(int input, int output, ResizeFilter filter) {
    const auto function = filter == ResizeFilter::bilinear ? bilinear : bicubic;
    const double scale = static_cast<double>(input) / output;
    const double stretch = std::max(scale, 1.0);
    const double support = (filter == ResizeFilter::bilinear ? 1.0 : 2.0) * stretch;
    const double inverse = 1.0 / stretch;

    RealTaps taps;
    taps.capacity = static_cast<int>(std::ceil(support)) * 2 + 1;
    taps.first.resize(static_cast<size_t>(output));
    taps.count.resize(static_cast<size_t>(output));
    taps.weights.resize(static_cast<size_t>(output) * static_cast<size_t>(taps.capacity));
    for (int i = 0; i < output; ++i) {
        const double center = scale * (i + 0.5);
        const int first = std::max(static_cast<int>(center - support + 0.5), 0);
        const int count =
            std::clamp(std::min(static_cast<int>(center + support + 0.5), input) - first, 0, taps.capacity);
        double* weights = &taps.weights[static_cast<size_t>(i) * static_cast<size_t>(taps.capacity)];
        double total = 0.0;
        for (int j = 0; j < count; ++j) total += weights[j] = function((j + first - center + 0.5) * inverse);
        for (int j = 0; j < count && total != 0.0; ++j) {
            weights[j] /= total;
            taps.largest = std::max(taps.largest, weights[j]);
        }
        taps.first[static_cast<size_t>(i)] = first;
        taps.count[static_cast<size_t>(i)] = count;
    }
    return taps;
}

// torch takes as many fractional bits as keep the largest weight of the axis inside 16 bits.
int torch_precision(double largest) {
    int precision = 0;
    while (precision < 22 && static_cast<int>(0.5 + largest * (1 << (precision + 1))) < (1 << 15)) ++precision;
    return precision;
}

template <typename Weight>
Taps<Weight> fixed_taps(RealTaps real, int precision) {
    Taps<Weight> taps;
    taps.precision = precision;
    taps.capacity = (real.capacity + 3) / 4 * 4;  // padded with zeros: the vector code takes four at a time
    taps.weights.assign(real.first.size() * static_cast<size_t>(taps.capacity), 0);
    for (size_t i = 0; i < real.first.size(); ++i)
        for (int j = 0; j < real.count[i]; ++j) {
            const double value = real.weights[i * static_cast<size_t>(real.capacity) + static_cast<size_t>(j)];
            const double scaled = value * (1 << precision);
            taps.weights[i * static_cast<size_t>(taps.capacity) + static_cast<size_t>(j)] =
                static_cast<Weight>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
        }
    taps.first = std::move(real.first);
    taps.count = std::move(real.count);
    return taps;
}

template <typename Weight>
Taps<Weight> make_taps(int input, int output, const ResizeOptions& options) {
    RealTaps real = real_taps(input, output, options.filter);
    const int precision = options.style == ResizeStyle::torchvision ? torch_precision(real.largest) : kPillowPrecision;
    return fixed_taps<Weight>(std::move(real), precision);
}

template <typename Weight>
Image resize_columns(const Image& image, int width, const ResizeOptions& options, int threads) {
    const Taps<Weight> taps = make_taps<Weight>(image.width, width, options);
    Image out(width, image.height, image.channels);
    const int groups = (image.height + kRowGroup - 1) / kRowGroup;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int g = 0; g < groups; ++g) resample_row_group(image, taps, g * kRowGroup, out);
    return out;
}

template <typename Weight>
Image resize_rows(const Image& image, int height, const ResizeOptions& options, int threads) {
    const Taps<Weight> taps = make_taps<Weight>(image.height, height, options);
    Image out(image.width, height, image.channels);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int y = 0; y < height; ++y) resample_down(image, taps, y, out);
    return out;
}

bool vertical_first(const Image& image, int width, int height, ResizeStyle style) {
    if (style != ResizeStyle::pillow || image.height <= height) return false;
    const int64_t fewer_rows = static_cast<int64_t>(image.height) - height;
    const int64_t fewer_columns = static_cast<int64_t>(image.width) - width;
    return fewer_rows > 2 * fewer_columns;
}

template <typename Weight>
Image resize_both(const Image& image, int width, int height, const ResizeOptions& options) {
    const int64_t work =
        std::max(static_cast<int64_t>(image.width) * image.height, static_cast<int64_t>(width) * height);
    const int wanted = options.threads > 0 ? options.threads : omp_get_max_threads();
    const int threads = work < kParallelPixels ? 1 : wanted;
    const bool rows = image.height != height;
    const bool columns = image.width != width;
    if (!columns || (rows && vertical_first(image, width, height, options.style))) {
        const Image low = resize_rows<Weight>(image, height, options, threads);
        return columns ? resize_columns<Weight>(low, width, options, threads) : low;
    }
    const Image narrow = resize_columns<Weight>(image, width, options, threads);
    return rows ? resize_rows<Weight>(narrow, height, options, threads) : narrow;
}

}  // namespace

ResizeWeights resize_weights(int input, int output) {
    const Taps<int16_t> taps = make_taps<int16_t>(input, output, {});
    return {taps.precision, taps.capacity, taps.first, {taps.weights.begin(), taps.weights.end()}};
}

Image resize(const Image& image, int width, int height, const ResizeOptions& options) {
    check_image(image);
    if (width < 1 || height < 1) fail("expected a size of at least 1 x 1 to resize to, found ", width, " x ", height);
    if (image.width == width && image.height == height) return image;
    if (options.style == ResizeStyle::torchvision) return resize_both<int16_t>(image, width, height, options);
    return resize_both<int32_t>(image, width, height, options);
}

}  // namespace sam3
