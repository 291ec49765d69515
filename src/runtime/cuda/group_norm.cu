#include "runtime/cuda/strided.cuh"

#include <algorithm>

// Group normalisation in three steps: moments of chunks of the map, their sum for each group, and the normalised map.
// No step adds in an order that depends on when its threads run, so results are the same every time.
namespace sam3::cuda {

namespace {

// A thread owns one column of kWidth channels and walks over rows (pixels); blocks are [columns, lanes].
struct GroupNormShape {
    int64_t rows;           // H * W
    int channels, columns;  // columns: channels / width
    int group_columns;      // of one group
    int64_t chunk;          // rows that one block walks over
    uint32_t chunks;        // of one image
    dim3 block, grid;       // grid: [N * chunks, blocks of columns]
};

GroupNormShape shape_of(const GroupNormArgs& args, int width) {
    GroupNormShape s{};
    s.rows = args.x.dim(1) * args.x.dim(2);
    s.channels = static_cast<int>(args.x.dim(3));
    s.columns = s.channels / width;
    s.group_columns = s.columns / args.groups;
    s.block.x = static_cast<unsigned>(std::min(s.columns, kThreads));
    s.block.y = kThreads / s.block.x;
    constexpr int64_t kMostChunks = 512;   // enough to fill any GPU
    constexpr int64_t kRowsOfAThread = 4;  // at least: fewer are not worth the start
    s.chunk = std::max<int64_t>(blocks_for(s.rows, kMostChunks), kRowsOfAThread * s.block.y);
    s.chunks = static_cast<uint32_t>(blocks_for(s.rows, s.chunk));
    s.grid = dim3(count_of("group_norm", args.x.dim(0) * s.chunks), blocks_of(s.columns, s.block.x));
    return s;
}

// What one block walks over.
struct Chunk {
    int64_t image, first, end;  // rows
    int column;

    __device__ explicit Chunk(const GroupNormShape& s)
        : image(blockIdx.x / s.chunks),
          first(blockIdx.x % s.chunks * s.chunk),
          end(min(first + s.chunk, s.rows)),
          column(static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x)) {}
};

// Mean, and sum of squared differences from it.
struct Moments {
    float count, mean, squares;

    // Chan's formula.
    __device__ void join(const Moments& other) {
        if (other.count == 0) return;
        const float total = count + other.count;
        const float difference = other.mean - mean;
        mean += difference * (other.count / total);
        squares += other.squares + difference * difference * (count * other.count / total);
        count = total;
    }
};

// Sums of differences from the first value: no digits are lost when the mean is large.
template <int kWidth, typename T>
__device__ Moments moments_of(const T* x, int64_t stride, int64_t rows, int64_t step) {
    Moments all{0.0F, 0.0F, 0.0F};
    if (rows <= 0) return all;
    const float shift = to_float(*x);
    float sum = 0;
    float squares = 0;
    int64_t read = 0;
    for (int64_t r = 0; r < rows; r += step, ++read) {
        const float4 d = map4(load_some<kWidth>(x + r * stride), [&](float v) { return v - shift; });
        sum += d.x;
        squares += d.x * d.x;
        if constexpr (kWidth == 4) {
            sum += d.y + (d.z + d.w);
            squares += d.y * d.y + (d.z * d.z + d.w * d.w);
        }
    }
    all.count = static_cast<float>(read * kWidth);
    const float mean = sum / all.count;
    all.mean = shift + mean;
    all.squares = fmaxf(squares - sum * mean, 0.0F);
    return all;
}

// partial: [N * chunks, columns]
template <int kWidth, typename T>
__global__ void partial_moments(GroupNormShape s, const T* x, Moments* partial) {
    __shared__ Moments parts[kThreads];
    const Chunk chunk(s);
    const bool inside = chunk.column < s.columns;
    const int64_t row = chunk.first + threadIdx.y;
    const T* const from = x + (chunk.image * s.rows + row) * s.channels + chunk.column * kWidth;
    Moments& own = parts[threadIdx.y * blockDim.x + threadIdx.x];
    own = inside ? moments_of<kWidth>(from, s.channels, chunk.end - row, blockDim.y) : Moments{0.0F, 0.0F, 0.0F};
    __syncthreads();
    if (threadIdx.y != 0 || !inside) return;
    Moments all = own;
    for (unsigned lane = 1; lane < blockDim.y; ++lane) all.join(parts[lane * blockDim.x + threadIdx.x]);
    partial[static_cast<int64_t>(blockIdx.x) * s.columns + chunk.column] = all;
}

__device__ double block_sum(double x) {
    __shared__ double parts[kThreads];
    parts[threadIdx.x] = x;
    __syncthreads();
    for (int half = kThreads / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    x = parts[0];
    __syncthreads();  // before the parts are used again
    return x;
}

// One block for each group of each image: statistics [N, groups] of mean and 1 / deviation.
__global__ void group_statistics(GroupNormShape s, int groups, float eps, const Moments* partial, float2* statistics) {
    const int64_t image = blockIdx.x / groups;
    const int group = static_cast<int>(blockIdx.x % groups);
    const Moments* const first = partial + image * s.chunks * s.columns + group * s.group_columns;
    const int64_t parts = static_cast<int64_t>(s.chunks) * s.group_columns;
    const double total = static_cast<double>(s.rows) * (s.channels / groups);
    const auto part = [&](int64_t i) { return first[i / s.group_columns * s.columns + i % s.group_columns]; };
    double sum = 0;
    for (int64_t i = threadIdx.x; i < parts; i += kThreads) {
        const Moments m = part(i);
        sum += static_cast<double>(m.count) * m.mean;
    }
    const double mean = block_sum(sum) / total;
    double squares = 0;
    for (int64_t i = threadIdx.x; i < parts; i += kThreads) {
        const Moments m = part(i);
        const double difference = m.mean - mean;
        squares += m.squares + m.count * difference * difference;
    }
    const double variance = block_sum(squares) / total;
    if (threadIdx.x == 0)
        statistics[blockIdx.x] = {static_cast<float>(mean), static_cast<float>(1.0 / sqrt(variance + eps))};
}

template <int kWidth, typename T>
__global__ void normalize_groups(GroupNormShape s, int groups, const T* x, const float* gamma, const float* beta,
                                 const float2* statistics, Activation activation, T* out) {
    const Chunk chunk(s);
    if (chunk.column >= s.columns) return;
    const int channel = chunk.column * kWidth;
    const float2 own = statistics[chunk.image * groups + chunk.column / s.group_columns];
    const float4 scale = map4(load_some<kWidth>(gamma + channel), [&](float g) { return g * own.y; });
    const float4 shift = load_some<kWidth>(beta + channel);
    const int64_t start = chunk.image * s.rows * s.channels + channel;
    for (int64_t r = chunk.first + threadIdx.y; r < chunk.end; r += blockDim.y) {
        const float4 v = load_some<kWidth>(x + start + r * s.channels);
        const float4 y = {(v.x - own.x) * scale.x + shift.x, (v.y - own.x) * scale.y + shift.y,
                          (v.z - own.x) * scale.z + shift.z, (v.w - own.x) * scale.w + shift.w};
        store_some<kWidth>(out + start + r * s.channels, map4(y, [&](float a) { return activate(a, activation); }));
    }
}

}  // namespace

void group_norm(const ExecContext& context, const GroupNormArgs& args) {
    const int64_t group_channels = args.x.dim(3) / args.groups;
    const size_t four = 4 * size_of(args.x.dtype());
    const bool fours = group_channels % 4 == 0 && is_aligned(args.x.raw(), four) && is_aligned(args.out.raw(), four) &&
                       is_aligned(args.gamma.raw(), 16) && is_aligned(args.beta.raw(), 16);
    for_width(fours, [&](auto width) {
        constexpr int kWidth = decltype(width)::value;
        const GroupNormShape s = shape_of(args, kWidth);
        const uint32_t groups = count_of("group_norm", args.x.dim(0) * args.groups);
        const Tensor partial = new_tensor(context, {s.grid.x, s.columns, sizeof(Moments) / sizeof(float)}, DType::f32);
        const Tensor statistics = new_tensor(context, {groups, 2}, DType::f32);
        auto* const moments = static_cast<Moments*>(partial.raw());
        auto* const both = static_cast<float2*>(statistics.raw());
        for_float_type(args.x.dtype(), [&](auto type) {
            using T = typename decltype(type)::type;
            const T* const x = args.x.data<const T>();
            launch(context, "group_norm", [&](cudaStream_t stream) {
                partial_moments<kWidth><<<s.grid, s.block, 0, stream>>>(s, x, moments);
                group_statistics<<<groups, kThreads, 0, stream>>>(s, args.groups, args.eps, moments, both);
                normalize_groups<kWidth><<<s.grid, s.block, 0, stream>>>(
                    s, args.groups, x, args.gamma.data<const float>(), args.beta.data<const float>(), both,
                    args.activation, args.out.data<T>());
            });
        });
    });
}

}  // namespace sam3::cuda
