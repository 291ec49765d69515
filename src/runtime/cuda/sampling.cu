#include "runtime/cuda/strided.cuh"

// Values of [N, H, W, C] maps between and around pixels. One thread makes kWidth channels of one output position. Where
// rounding decides which pixels count, intrinsics keep the compiler from fusing what the CPU rounds twice.
namespace sam3::cuda {

namespace {

// The input map; C counts pieces of kWidth channels.
struct Map {
    int64_t images, height, width, channels;
};

Map map_of(const Tensor& x, int width) { return {x.dim(0), x.dim(1), x.dim(2), x.dim(3) / width}; }

template <int kWidth, typename T>
__device__ const T* pixel_of(const Map& map, const T* x, int64_t image, int64_t row, int64_t column, uint32_t piece) {
    return x + (((image * map.height + row) * map.width + column) * map.channels + piece) * kWidth;
}

bool has_fours(const Tensor& x, const Tensor& out) {
    const size_t four = 4 * size_of(x.dtype());
    return x.dim(-1) % 4 == 0 && is_aligned(x.raw(), four) && is_aligned(out.raw(), four);
}

// Calls `f(Type<T>, Width<W>)` with the element type of x and out, and how many channels a thread takes.
template <typename F>
void for_map(const char* op, const Tensor& x, const Tensor& out, const F& f) {
    count_of(op, out.numel());
    for_float_type(x.dtype(), [&](auto type) { for_width(has_fours(x, out), [&](auto width) { f(type, width); }); });
}

// A coordinate in [-1, 1] between two pixels; a pixel outside the map has the weight zero.
struct Between {
    int64_t pixel[2] = {0, 0};
    float weight[2] = {0.0F, 0.0F};

    __device__ Between(float coordinate, int64_t size) {
        const float position = (__fmul_rn(coordinate + 1.0F, static_cast<float>(size)) - 1.0F) / 2.0F;
        if (!(position > -1.0F && position < static_cast<float>(size))) return;  // NaN and infinity, too
        const float below = floorf(position);
        const auto low = static_cast<int64_t>(below);
        const float fraction = position - below;
        weight[0] = low >= 0 ? 1.0F - fraction : 0.0F;
        weight[1] = low + 1 < size ? fraction : 0.0F;
        pixel[0] = max(low, int64_t{0});
        pixel[1] = min(low + 1, size - 1);
    }
};

template <int kWidth, typename T>
__global__ void grid_sample_kernel(Map map, uint32_t count, Divisor pieces, Divisor points, const T* x,
                                   const float* grid, T* out) {
    const uint32_t i = thread_number();
    if (i >= count) return;
    uint32_t point = i;
    const uint32_t piece = pieces.take(point);
    const int64_t image = points.quotient(point);
    const Between across(grid[2 * point], map.width);
    const Between down(grid[2 * point + 1], map.height);
    float4 sum = {0.0F, 0.0F, 0.0F, 0.0F};
    for (int y = 0; y < 2; ++y)
        for (int c = 0; c < 2; ++c) {
            const float weight = down.weight[y] * across.weight[c];
            if (weight == 0) continue;
            sum = add_scaled(sum, weight,
                             load_some<kWidth>(pixel_of<kWidth>(map, x, image, down.pixel[y], across.pixel[c], piece)));
        }
    store_some<kWidth>(out + static_cast<int64_t>(i) * kWidth, sum);
}

// A NaN wins, as in PyTorch.
__device__ float larger(float a, float b) { return b > a || b != b ? b : a; }

struct Pool {
    int kernel, stride;
    Divisor width, height;  // of the output
};

template <int kWidth, typename T>
__global__ void max_pool_kernel(Map map, uint32_t count, Divisor pieces, Pool pool, const T* x, T* out) {
    const uint32_t i = thread_number();
    if (i >= count) return;
    uint32_t image = i;
    const uint32_t piece = pieces.take(image);
    const int64_t column = static_cast<int64_t>(pool.width.take(image)) * pool.stride;
    const int64_t row = static_cast<int64_t>(pool.height.take(image)) * pool.stride;
    float4 most = load_some<kWidth>(pixel_of<kWidth>(map, x, image, row, column, piece));
    for (int y = 0; y < pool.kernel; ++y)
        for (int c = 0; c < pool.kernel; ++c) {
            const float4 v = load_some<kWidth>(pixel_of<kWidth>(map, x, image, row + y, column + c, piece));
            most = {larger(most.x, v.x), larger(most.y, v.y), larger(most.z, v.z), larger(most.w, v.w)};
        }
    store_some<kWidth>(out + static_cast<int64_t>(i) * kWidth, most);
}

struct Roi {
    float spatial_scale;
    int sampling_ratio;
    bool aligned;
    Divisor width, height;  // of the output
};

// One side of a box in feature-map pixels, cut into bins of `samples` points each. torchvision's arithmetic.
struct Side {
    float start, bin;
    int64_t samples;

    __device__ Side(float low, float high, uint32_t bins, const Roi& roi) {
        const float offset = roi.aligned ? 0.5F : 0.0F;
        start = __fsub_rn(__fmul_rn(low, roi.spatial_scale), offset);
        float length = __fsub_rn(__fsub_rn(__fmul_rn(high, roi.spatial_scale), offset), start);
        if (!roi.aligned) length = length < 1.0F ? 1.0F : length;
        bin = length / static_cast<float>(bins);
        constexpr float kMany = 1099511627776.0F;  // 2^40 keeps absurdly large boxes inside the integers
        samples =
            roi.sampling_ratio > 0 ? roi.sampling_ratio : static_cast<int64_t>(fminf(fmaxf(ceilf(bin), 0.0F), kMany));
    }
    __device__ bool is_finite() const { return isfinite(start) && isfinite(bin); }
    __device__ float sample(uint32_t bin_index, int64_t i) const {
        const float inside = __fmul_rn(static_cast<float>(i) + 0.5F, bin) / static_cast<float>(samples);
        return __fadd_rn(__fadd_rn(start, __fmul_rn(static_cast<float>(bin_index), bin)), inside);
    }
    // The samples of a bin that can lie on [-1, size], with some to spare; all others count as zero.
    __device__ void useful(uint32_t bin_index, int64_t size, int64_t& begin, int64_t& end) const {
        begin = 0;
        end = samples;
        if (samples <= 4 * size || bin <= 0) return;
        const double step = static_cast<double>(bin) / static_cast<double>(samples);
        const double bin_start = static_cast<double>(start) + bin_index * static_cast<double>(bin);
        const auto limit = static_cast<double>(samples);
        begin = static_cast<int64_t>(fmin(fmax((-1.0 - bin_start) / step - 4.0, 0.0), limit));
        end = static_cast<int64_t>(fmin(fmax((static_cast<double>(size) - bin_start) / step + 4.0, 0.0), limit));
    }
};

// A sample between two pixels of an axis. One that lies too far outside counts as zero.
struct Sample {
    int64_t low, high;
    float fraction;
    bool counts;

    __device__ Sample(float position, int64_t size) {
        counts = !(position < -1.0F || position > static_cast<float>(size));
        const float inside = counts ? fmaxf(position, 0.0F) : 0.0F;
        low = min(static_cast<int64_t>(inside), size - 1);
        high = min(low + 1, size - 1);
        fraction = low == size - 1 ? 0.0F : inside - static_cast<float>(low);
    }
};

template <int kWidth, typename T>
__device__ float4 bin_mean(const Map& map, const T* x, int64_t image, const Side& vertical, uint32_t row,
                           const Side& horizontal, uint32_t column, uint32_t piece) {
    int64_t top, bottom, left, right;
    vertical.useful(row, map.height, top, bottom);
    horizontal.useful(column, map.width, left, right);
    float4 sum = {0.0F, 0.0F, 0.0F, 0.0F};
    for (int64_t y = top; y < bottom; ++y) {
        const Sample down(vertical.sample(row, y), map.height);
        if (!down.counts) continue;
        for (int64_t c = left; c < right; ++c) {
            const Sample across(horizontal.sample(column, c), map.width);
            if (!across.counts) continue;
            const auto add = [&](int64_t at_row, int64_t at_column, float weight) {
                sum = add_scaled(sum, weight,
                                 load_some<kWidth>(pixel_of<kWidth>(map, x, image, at_row, at_column, piece)));
            };
            add(down.low, across.low, (1.0F - down.fraction) * (1.0F - across.fraction));
            add(down.low, across.high, (1.0F - down.fraction) * across.fraction);
            add(down.high, across.low, down.fraction * (1.0F - across.fraction));
            add(down.high, across.high, down.fraction * across.fraction);
        }
    }
    const float count = fmaxf(static_cast<float>(vertical.samples) * static_cast<float>(horizontal.samples), 1.0F);
    return map4(sum, [&](float v) { return v / count; });
}

// A box that names no image of the batch, or is not finite, gives NaN: the boxes are not known when this is launched.
template <int kWidth, typename T>
__global__ void roi_align_kernel(Map map, uint32_t count, Divisor pieces, Roi roi, const T* x, const float* boxes,
                                 T* out) {
    const uint32_t i = thread_number();
    if (i >= count) return;
    uint32_t index = i;
    const uint32_t piece = pieces.take(index);
    const uint32_t column = roi.width.take(index);
    const uint32_t row = roi.height.take(index);
    const float* const box = boxes + 5 * static_cast<int64_t>(index);
    const Side vertical(box[2], box[4], roi.height.divisor, roi);
    const Side horizontal(box[1], box[3], roi.width.divisor, roi);
    const float nan = __int_as_float(0x7fc00000);
    float4 mean = {nan, nan, nan, nan};
    const bool has_image = box[0] >= 0 && box[0] < static_cast<float>(map.images);
    if (has_image && vertical.is_finite() && horizontal.is_finite())
        mean = bin_mean<kWidth>(map, x, static_cast<int64_t>(box[0]), vertical, row, horizontal, column, piece);
    store_some<kWidth>(out + static_cast<int64_t>(i) * kWidth, mean);
}

}  // namespace

void grid_sample(const ExecContext& context, const GridSampleArgs& args) {
    for_map("grid_sample", args.x, args.out, [&](auto type, auto width) {
        using T = typename decltype(type)::type;
        constexpr int kWidth = decltype(width)::value;
        const Map map = map_of(args.x, kWidth);
        const auto count = static_cast<uint32_t>(args.out.numel() / kWidth);
        const Tensor grid = as_type(context, args.grid, DType::f32);
        launch(context, "grid_sample", [&](cudaStream_t stream) {
            grid_sample_kernel<kWidth><<<blocks_of(count), kThreads, 0, stream>>>(
                map, count, Divisor(map.channels), Divisor(args.grid.dim(1)), args.x.data<const T>(),
                grid.data<const float>(), args.out.data<T>());
        });
    });
}

void max_pool(const ExecContext& context, const MaxPoolArgs& args) {
    const Pool pool{args.kernel, args.stride, Divisor(args.out.dim(2)), Divisor(args.out.dim(1))};
    for_map("max_pool", args.x, args.out, [&](auto type, auto width) {
        using T = typename decltype(type)::type;
        constexpr int kWidth = decltype(width)::value;
        const Map map = map_of(args.x, kWidth);
        const auto count = static_cast<uint32_t>(args.out.numel() / kWidth);
        launch(context, "max_pool", [&](cudaStream_t stream) {
            max_pool_kernel<kWidth><<<blocks_of(count), kThreads, 0, stream>>>(
                map, count, Divisor(map.channels), pool, args.x.data<const T>(), args.out.data<T>());
        });
    });
}

void roi_align(const ExecContext& context, const RoiAlignArgs& args) {
    const Roi roi{args.spatial_scale, args.sampling_ratio, args.aligned, Divisor(args.out.dim(2)),
                  Divisor(args.out.dim(1))};
    for_map("roi_align", args.x, args.out, [&](auto type, auto width) {
        using T = typename decltype(type)::type;
        constexpr int kWidth = decltype(width)::value;
        const Map map = map_of(args.x, kWidth);
        const auto count = static_cast<uint32_t>(args.out.numel() / kWidth);
        const Tensor boxes = as_type(context, args.boxes, DType::f32);
        launch(context, "roi_align", [&](cudaStream_t stream) {
            roi_align_kernel<kWidth><<<blocks_of(count), kThreads, 0, stream>>>(
                map, count, Divisor(map.channels), roi, args.x.data<const T>(), boxes.data<const float>(),
                args.out.data<T>());
        });
    });
}

}  // namespace sam3::cuda
