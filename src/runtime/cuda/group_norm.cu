#include "runtime/cuda/early.cuh"
#include "runtime/cuda/strided.cuh"

#include <algorithm>

// Group normalisation in two steps: moments of each group in parts of the map; and their sums, which every block makes
// for itself because there are few, with the normalised map. No step adds in an order that depends on when its threads
// run, so results are the same every time.
namespace sam3::cuda {

namespace {

constexpr int kNormThreads = 512;  // of a block
constexpr int kNormWarps = kNormThreads / 32;
constexpr int kRowsTogether = 4;  // that a thread has under way

// A thread owns a column of kWidth channels and walks over rows (pixels); a block has whole groups, and its threads are
// [lanes, columns], the last few of them idle where these do not fit. Where one group has more columns than a block has
// threads, they take several columns, one after the other.
struct GroupNormShape {
    int64_t rows;  // H * W
    int channels, groups;
    int group_columns;   // of one group
    int block_groups;    // of one block
    int columns, lanes;  // threads of one block
    uint32_t parts;      // blocks that share the rows of an image
    dim3 grid;           // [N * parts, blocks of groups]
};

GroupNormShape shape_of(const GroupNormArgs& args, int width) {
    GroupNormShape s{};
    s.rows = args.x.dim(1) * args.x.dim(2);
    s.channels = static_cast<int>(args.x.dim(3));
    s.groups = args.groups;
    s.group_columns = s.channels / width / s.groups;
    s.block_groups = std::clamp(kNormThreads / s.group_columns, 1, s.groups);
    s.columns = std::min(s.block_groups * s.group_columns, kNormThreads);
    s.lanes = kNormThreads / s.columns;
    // Enough to fill any GPU, and so few that it costs little to add them up in every block. The same for every GPU,
    // and with it the order of the sums.
    constexpr int64_t kMostParts = 256;
    s.parts = static_cast<uint32_t>(
        std::clamp<int64_t>(s.rows / (static_cast<int64_t>(kRowsTogether) * s.lanes), 1, kMostParts));
    s.grid = dim3(count_of("group_norm", args.x.dim(0) * s.parts), blocks_of(s.groups, s.block_groups));
    return s;
}

// What one thread walks over: `rows` rows from the first one, `step` apart. Rows that are walked over at the same time
// lie together.
struct Walker {
    int64_t image;
    uint32_t part;
    int first_group, groups, end;  // of the block; end: of its columns
    int column, lane;
    int64_t first, step;
    int rows;

    __device__ explicit Walker(const GroupNormShape& s)
        : image(blockIdx.x / s.parts),
          part(blockIdx.x % s.parts),
          first_group(static_cast<int>(blockIdx.y) * s.block_groups),
          groups(min(s.block_groups, s.groups - first_group)),
          end(groups * s.group_columns),
          column(static_cast<int>(threadIdx.x) % s.columns),
          lane(static_cast<int>(threadIdx.x) / s.columns),
          first(static_cast<int64_t>(part) * s.lanes + lane),
          step(static_cast<int64_t>(s.parts) * s.lanes),
          rows(lane < s.lanes && first < s.rows ? static_cast<int>((s.rows - first - 1) / step) + 1 : 0) {}

    // Where a column of the block begins in a map.
    __device__ int64_t start(const GroupNormShape& s, int own_column, int width) const {
        return image * s.rows * s.channels + channel(s, own_column, width);
    }
    __device__ int channel(const GroupNormShape& s, int own_column, int width) const {
        return (first_group * s.group_columns + own_column) * width;
    }
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

// Calls `use(bits, at)` for pieces `stride` elements apart, of which several are loaded before the first is used. at:
// how far they lie behind the first one.
template <int kWidth, typename T, typename Use>
__device__ void for_each_piece(const T* x, int64_t stride, int rows, const Use& use) {
    int64_t at = 0;
    for (int row = 0; row < rows; row += kRowsTogether, at += kRowsTogether * stride) {
        PieceBits<kWidth, T> bits[kRowsTogether];
#pragma unroll
        for (int r = 0; r < kRowsTogether; ++r)
            if (row + r < rows) bits[r] = load_bits<kWidth>(x + (at + r * stride));
#pragma unroll
        for (int r = 0; r < kRowsTogether; ++r)
            if (row + r < rows) use(bits[r], at + r * stride);
    }
}

// Sums of differences from the first value: no digits are lost when the mean is large.
template <int kWidth, typename T>
__device__ Moments moments_of(const T* x, int64_t stride, int rows) {
    Moments all{0.0F, 0.0F, 0.0F};
    if (rows <= 0) return all;
    const float shift = to_float(*x);
    float sum = 0;
    float squares = 0;
    for_each_piece<kWidth>(x, stride, rows, [&](PieceBits<kWidth, T> bits, int64_t /*at*/) {
        float values[kWidth];
        unpack<T>(bits, values);
        float piece = 0;
        float piece_squares = 0;
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
            const float d = values[i] - shift;
            piece += d;
            piece_squares += d * d;
        }
        sum += piece;
        squares += piece_squares;
    });
    all.count = static_cast<float>(rows) * kWidth;
    const float mean = sum / all.count;
    all.mean = shift + mean;
    all.squares = fmaxf(squares - sum * mean, 0.0F);
    return all;
}

__device__ double warp_sum(double x) {
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffU, x, step);
    return x;
}

struct ExactMoments {
    double count, mean, squares;
};

// Joins part(0), part(1), ... with one warp. The sums are of differences from the first mean, as above.
template <typename Part>
__device__ ExactMoments joined(int count, const Part& part) {
    const double shift = part(0).mean;
    double total = 0;
    double sum = 0;
    double squares = 0;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x % 32); i < count; i += 32) {
        const Moments m = part(i);
        const double difference = m.mean - shift;
        total += m.count;
        sum += m.count * difference;
        squares += m.squares + m.count * difference * difference;
    }
    total = warp_sum(total);
    sum = warp_sum(sum);
    squares = warp_sum(squares);
    return {total, shift + sum / total, fmax(squares - sum * (sum / total), 0.0)};
}

// partial: [N, groups, parts]. Rows are walked over from the last one, which was written last, to the first: what lies
// in the cache is read before it is replaced, here and by the next kernel.
template <int kWidth, typename T>
__global__ void __launch_bounds__(kNormThreads) partial_moments(GroupNormShape s, const T* x, Moments* partial) {
    __shared__ Moments parts[kNormThreads];
    let_next_start();
    wait_for_earlier();
    const Walker walker(s);
    Moments own{0.0F, 0.0F, 0.0F};
    for (int column = walker.column; column < walker.end; column += s.columns) {
        const T* const last = x + walker.start(s, column, kWidth) + (s.rows - 1 - walker.first) * s.channels;
        own.join(moments_of<kWidth>(last, -walker.step * s.channels, walker.rows));
    }
    parts[threadIdx.x] = own;
    __syncthreads();
    const int columns = min(s.group_columns, s.columns);
    for (int group = static_cast<int>(threadIdx.x / 32); group < walker.groups; group += kNormWarps) {
        const ExactMoments all = joined(
            s.lanes * columns, [&](int i) { return parts[i / columns * s.columns + group * columns + i % columns]; });
        if (threadIdx.x % 32 == 0)
            partial[(walker.image * s.groups + walker.first_group + group) * s.parts + walker.part] = {
                static_cast<float>(all.count), static_cast<float>(all.mean), static_cast<float>(all.squares)};
    }
}

// kRelu: that is the activation; known to the compiler, because a choice for each value costs more than the rest.
template <int kWidth, bool kRelu, typename T>
__global__ void __launch_bounds__(kNormThreads)
    normalize_groups(GroupNormShape s, float eps, const T* x, const float* gamma, const float* beta,
                     const Moments* partial, Activation activation, T* out) {
    __shared__ float2 statistics[kNormThreads];  // of each group: mean and 1 / deviation
    let_next_start();
    wait_for_earlier();
    const Walker walker(s);
    for (int group = static_cast<int>(threadIdx.x / 32); group < walker.groups; group += kNormWarps) {
        const Moments* const first = partial + (walker.image * s.groups + walker.first_group + group) * s.parts;
        const ExactMoments all = joined(static_cast<int>(s.parts), [&](int i) { return first[i]; });
        if (threadIdx.x % 32 == 0)
            statistics[group] = {static_cast<float>(all.mean),
                                 static_cast<float>(1.0 / sqrt(all.squares / all.count + eps))};
    }
    __syncthreads();
    for (int column = walker.column; column < walker.end; column += s.columns) {
        const int channel = walker.channel(s, column, kWidth);
        const float2 own = statistics[column / s.group_columns];
        float scale[kWidth], shift[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
            scale[i] = gamma[channel + i] * own.y;
            shift[i] = beta[channel + i];
        }
        const int64_t start = walker.start(s, column, kWidth) + walker.first * s.channels;
        const int64_t stride = walker.step * s.channels;
        for_each_piece<kWidth>(x + start, stride, walker.rows, [&](PieceBits<kWidth, T> bits, int64_t at) {
            float values[kWidth];
            unpack<T>(bits, values);
#pragma unroll
            for (int i = 0; i < kWidth; ++i) {
                const float y = (values[i] - own.x) * scale[i] + shift[i];
                values[i] = kRelu ? fmaxf(y, 0.0F) : activate(y, activation);
            }
            store_piece(out + (start + at), values);
        });
    }
}

template <int kWidth, typename T>
void start_group_norm(const ExecContext& context, const GroupNormArgs& args) {
    const GroupNormShape s = shape_of(args, kWidth);
    const Tensor partial =
        new_tensor(context, {args.x.dim(0) * s.groups, s.parts, static_cast<int64_t>(sizeof(Moments) / sizeof(float))},
                   DType::f32);
    auto* const moments = static_cast<Moments*>(partial.raw());
    const auto normalize =
        args.activation == Activation::relu ? normalize_groups<kWidth, true, T> : normalize_groups<kWidth, false, T>;
    launch(context, "group_norm", [&](cudaStream_t stream) {
        KernelLaunch steps(s.grid, kNormThreads, 0, stream);
        steps.early(context);
        steps.start("group_norm", partial_moments<kWidth, T>, s, args.x.data<const T>(), moments);
        steps.start("group_norm", normalize, s, args.eps, args.x.data<const T>(), args.gamma.data<const float>(),
                    args.beta.data<const float>(), static_cast<const Moments*>(moments), args.activation,
                    args.out.data<T>());
    });
}

}  // namespace

void group_norm(const ExecContext& context, const GroupNormArgs& args) {
    const int64_t group_channels = args.x.dim(3) / args.groups;
    const bool aligned = is_aligned(args.x.raw(), 16) && is_aligned(args.out.raw(), 16);
    for_float_type(args.x.dtype(), [&](auto type) {
        using T = typename decltype(type)::type;
        if (aligned && group_channels % kPiece<T> == 0)
            start_group_norm<kPiece<T>, T>(context, args);
        else
            start_group_norm<1, T>(context, args);
    });
}

}  // namespace sam3::cuda
