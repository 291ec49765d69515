#include "runtime/cuda/early.cuh"
#include "runtime/cuda/mma.cuh"
#include "runtime/cuda/strided.cuh"

#include <algorithm>

// Resizing of [N, H, W, C] maps. Positions are computed as on the CPU to the last bit: intrinsics keep the compiler
// from fusing what is rounded twice there.
namespace sam3::cuda {

namespace {

constexpr int64_t kMostLayers = 65535;  // of a grid, in y and in z

// Sizes of both maps; C counts pieces of kWidth channels. One thread makes one piece of one output pixel.
struct Maps {
    uint32_t count;
    Divisor channels, width, height;  // of the output
    int64_t in_height, in_width;
};

Maps maps_of(const ResizeArgs& args, int width) {
    return {count_of("resize", args.out.numel() / width),
            Divisor(args.out.dim(3) / width),
            Divisor(args.out.dim(2)),
            Divisor(args.out.dim(1)),
            args.x.dim(1),
            args.x.dim(2)};
}

struct Place {
    uint32_t channel, column, row, image;

    __device__ Place(const Maps& maps, uint32_t index) {
        channel = maps.channels.take(index);
        column = maps.width.take(index);
        row = maps.height.take(index);
        image = index;
    }
};

__host__ __device__ float scale_of(int64_t in, uint32_t out) {
    return static_cast<float>(in) / static_cast<float>(out);
}

// PyTorch's nearest: floor(i * in / out) in float, with the two cases that it computes without one.
__device__ int64_t nearest(uint32_t i, int64_t in, uint32_t out) {
    if (in == out) return i;
    if (out == 2 * in) return i / 2;
    return min(static_cast<int64_t>(floorf(static_cast<float>(i) * scale_of(in, out))), in - 1);
}

// The input positions that an output position is made of, and their weights.
struct TwoTaps {
    int first;
    int step, count;  // step: 0 where the last pixel is repeated
    float weight[2];

    // PyTorch's upsample_bilinear2d without align_corners.
    __device__ TwoTaps(uint32_t i, int in, uint32_t out) : TwoTaps(i, in, out, scale_of(in, out)) {}
    __device__ TwoTaps(uint32_t i, int in, uint32_t out, float scale) {
        if (static_cast<uint32_t>(in) == out) {
            first = static_cast<int>(i);
            step = 0;
            count = 1;
            weight[0] = 1.0F;
            weight[1] = 0.0F;
            return;
        }
        const float source = fmaxf(fmaf(scale, static_cast<float>(i) + 0.5F, -0.5F), 0.0F);
        first = min(static_cast<int>(source), in - 1);
        const float fraction = fminf(fmaxf(source - static_cast<float>(first), 0.0F), 1.0F);
        step = first < in - 1 ? 1 : 0;
        count = 2;
        weight[0] = 1.0F - fraction;
        weight[1] = fraction;
    }
};

// PyTorch's _upsample_bilinear2d_aa: a triangle as wide as the step between output pixels, cut at the border.
struct Triangle {
    int64_t first;
    int count;
    float center, inverse, sum;
    bool keeps;  // input and output have the same size

    __device__ Triangle(uint32_t i, int64_t in, uint32_t out) : keeps(in == out) {
        first = i;
        count = 1;
        center = inverse = sum = 1.0F;
        if (keeps) return;
        const float scale = scale_of(in, out);
        const float support = fmaxf(scale, 1.0F);
        inverse = 1.0F / support;
        center = __fmul_rn(scale, static_cast<float>(i) + 0.5F);
        const int64_t most = min(max(2 * static_cast<int64_t>(ceilf(support)) + 1, int64_t{2}), max(in, int64_t{2}));
        first = max(static_cast<int64_t>(center - support + 0.5F), int64_t{0});
        const int64_t last = min(static_cast<int64_t>(center + support + 0.5F), in);
        count = static_cast<int>(min(max(last - first, int64_t{0}), most));
        sum = 0;
        for (int j = 0; j < count; ++j) sum += height(j);
    }
    __device__ float height(int j) const {
        const float distance = __fmul_rn(fabsf(static_cast<float>(j + first) - center + 0.5F), inverse);
        return distance < 1.0F ? 1.0F - distance : 0.0F;
    }
    __device__ float weight(int j) const { return keeps ? 1.0F : height(j) / sum; }
};

template <int kWidth, typename T>
__device__ float4 pixel(const T* x, const Maps& maps, uint32_t image, int64_t row, int64_t column, uint32_t channel) {
    const int64_t at = (image * maps.in_height + row) * maps.in_width + column;
    return load_some<kWidth>(x + (at * maps.channels.divisor + channel) * kWidth);
}

template <int kWidth, typename T>
__global__ void resize_nearest(Maps maps, const T* x, T* out) {
    const uint32_t i = thread_number();
    if (i >= maps.count) return;
    const Place p(maps, i);
    const int64_t row = nearest(p.row, maps.in_height, maps.height.divisor);
    const int64_t column = nearest(p.column, maps.in_width, maps.width.divisor);
    store_some<kWidth>(out + static_cast<int64_t>(i) * kWidth, pixel<kWidth>(x, maps, p.image, row, column, p.channel));
}

// Sizes of both maps for a grid of [pieces of 16 bytes of a row, output rows].
struct PiecesOfRows {
    int64_t rows;
    uint32_t row_pieces;
    Divisor pixel_pieces, height;
    uint32_t width;
    int64_t in_height, in_width;
    bool adds_one;  // map to all of the batch
};

// As resize_nearest, and adds a map: the resized one is neither written nor read for it.
template <typename T>
__global__ void resize_nearest_and_add(PiecesOfRows maps, const T* x, const T* added, T* out) {
    let_next_start();
    wait_for_earlier();
    const uint32_t i = thread_number();
    if (i >= maps.row_pieces) return;
    uint32_t column = i;
    const uint32_t piece = maps.pixel_pieces.take(column);
    const int64_t from = nearest(column, maps.in_width, maps.width) * maps.pixel_pieces.divisor + piece;
    for (int64_t row = blockIdx.y; row < maps.rows; row += gridDim.y) {
        auto image = static_cast<uint32_t>(row);
        const uint32_t image_row = maps.height.take(image);
        const int64_t in_row = image * maps.in_height + nearest(image_row, maps.in_height, maps.height.divisor);
        const int64_t added_row = maps.adds_one ? image_row : row;
        float values[kPiece<T>], others[kPiece<T>];
        load_piece(x + (in_row * maps.in_width * maps.pixel_pieces.divisor + from) * kPiece<T>, values);
        load_piece(added + (added_row * maps.row_pieces + i) * kPiece<T>, others);
#pragma unroll
        for (int v = 0; v < kPiece<T>; ++v) values[v] += others[v];
        store_piece(out + (row * maps.row_pieces + i) * kPiece<T>, values);
    }
}

template <int kWidth, typename T>
__global__ void resize_bilinear(Maps maps, const T* x, T* out) {
    const uint32_t i = thread_number();
    if (i >= maps.count) return;
    const Place p(maps, i);
    const TwoTaps down(p.row, static_cast<int>(maps.in_height), maps.height.divisor);
    const TwoTaps across(p.column, static_cast<int>(maps.in_width), maps.width.divisor);
    float4 sum = {0.0F, 0.0F, 0.0F, 0.0F};
    for (int y = 0; y < down.count; ++y) {
        float4 row = {0.0F, 0.0F, 0.0F, 0.0F};
        for (int c = 0; c < across.count; ++c)
            row = add_scaled(
                row, across.weight[c],
                pixel<kWidth>(x, maps, p.image, down.first + y * down.step, across.first + c * across.step, p.channel));
        sum = add_scaled(sum, down.weight[y], row);
    }
    store_some<kWidth>(out + static_cast<int64_t>(i) * kWidth, sum);
}

template <int kWidth, typename T>
__global__ void resize_antialiased(Maps maps, const T* x, T* out) {
    const uint32_t i = thread_number();
    if (i >= maps.count) return;
    const Place p(maps, i);
    const Triangle down(p.row, maps.in_height, maps.height.divisor);
    const Triangle across(p.column, maps.in_width, maps.width.divisor);
    float4 sum = {0.0F, 0.0F, 0.0F, 0.0F};
    for (int y = 0; y < down.count; ++y) {
        float4 row = {0.0F, 0.0F, 0.0F, 0.0F};
        for (int c = 0; c < across.count; ++c)
            row = add_scaled(row, across.weight(c),
                             pixel<kWidth>(x, maps, p.image, down.first + y, across.first + c, p.channel));
        sum = add_scaled(sum, down.weight(y), row);
    }
    store_some<kWidth>(out + static_cast<int64_t>(i) * kWidth, sum);
}

template <typename T>
void start_nearest_and_add(const ExecContext& context, const ResizeArgs& args) {
    const int64_t pixel = args.x.dim(3) / kPiece<T>;
    const PiecesOfRows maps = {args.out.dim(0) * args.out.dim(1),
                               count_of("resize", args.out.dim(2) * pixel),
                               Divisor(pixel),
                               Divisor(args.out.dim(1)),
                               static_cast<uint32_t>(args.out.dim(2)),
                               args.x.dim(1),
                               args.x.dim(2),
                               args.added.dim(0) == 1};
    const dim3 grid(blocks_of(maps.row_pieces), count_of("resize", std::min(maps.rows, kMostLayers)));
    launch(context, "resize", [&](cudaStream_t stream) {
        KernelLaunch(grid, kThreads, 0, stream)
            .early(context)
            .start("resize", resize_nearest_and_add<T>, maps, args.x.data<const T>(), args.added.data<const T>(),
                   args.out.data<T>());
    });
}

// Whether the maps of a sum can be walked in pieces of 16 bytes.
bool has_pieces(const ResizeArgs& args) {
    const auto fits = [](const Tensor& x) {
        return x.dim(3) * static_cast<int64_t>(size_of(x.dtype())) % 16 == 0 && is_aligned(x.raw(), 16);
    };
    return fits(args.x) && fits(args.added) && fits(args.out);
}

}  // namespace

void resize(const ExecContext& context, const ResizeArgs& args) {
    if (args.added) {
        if (args.mode == Interpolation::nearest && has_pieces(args))
            return for_float_type(args.x.dtype(), [&](auto type) {
                start_nearest_and_add<typename decltype(type)::type>(context, args);
            });
        resize(context, ResizeArgs{args.x, args.mode, args.antialias, args.out});
        return binary(context, BinaryArgs{args.out, args.added.expand(0, args.out.dim(0)), Binary::add, args.out});
    }
    const size_t four = 4 * size_of(args.x.dtype());
    const bool fours = args.x.dim(3) % 4 == 0 && is_aligned(args.x.raw(), four) && is_aligned(args.out.raw(), four);
    for_float_type(args.x.dtype(), [&](auto type) {
        using T = typename decltype(type)::type;
        for_width(fours, [&](auto width) {
            constexpr int kWidth = decltype(width)::value;
            const Maps maps = maps_of(args, kWidth);
            const auto start = [&](auto kernel) {
                launch(context, "resize", [&](cudaStream_t stream) {
                    kernel<<<blocks_of(maps.count), kThreads, 0, stream>>>(maps, args.x.data<const T>(),
                                                                           args.out.data<T>());
                });
            };
            if (args.mode == Interpolation::nearest)
                start(resize_nearest<kWidth, T>);
            else if (args.antialias)
                start(resize_antialiased<kWidth, T>);
            else
                start(resize_bilinear<kWidth, T>);
        });
    });
}

namespace {

struct AboveMaps {
    int64_t count;
    int in_height, in_width;
    uint32_t height, width;
    float scale_down, scale_across;
    float threshold;
};

constexpr int kAboveColumns = 4;  // of a thread, side by side
constexpr int kAboveRows = 16;    // of a thread, from top to bottom
constexpr dim3 kAboveBlock(64, 4);

// A thread walks down a few columns: where they begin is computed once, and an input row is blended once for all the
// output rows that lie beside it.
template <typename T>
__global__ void above_kernel(AboveMaps maps, const T* x, uint8_t* out) {
    const uint32_t column = (blockIdx.x * blockDim.x + threadIdx.x) * kAboveColumns;
    const uint32_t first_row = (blockIdx.y * blockDim.y + threadIdx.y) * kAboveRows;
    if (column >= maps.width) return;
    int offset[kAboveColumns], step[kAboveColumns];
    float left[kAboveColumns], right[kAboveColumns];
#pragma unroll
    for (int c = 0; c < kAboveColumns; ++c) {
        const TwoTaps across(min(column + c, maps.width - 1), maps.in_width, maps.width, maps.scale_across);
        offset[c] = across.first;
        step[c] = across.step;
        left[c] = across.weight[0];
        right[c] = across.weight[1];
    }
    const bool one_column = static_cast<uint32_t>(maps.in_width) == maps.width;
    const bool one_row = static_cast<uint32_t>(maps.in_height) == maps.height;
    const bool whole = maps.width % kAboveColumns == 0;
    for (int64_t map = blockIdx.z; map < maps.count; map += gridDim.z) {
        const T* const from = x + map * (static_cast<int64_t>(maps.in_height) * maps.in_width);
        uint8_t* to = out + (map * maps.height + first_row) * maps.width + column;
        float upper[kAboveColumns], lower[kAboveColumns];
        const auto blend = [&](int row, float(&blended)[kAboveColumns]) {
            const T* const line = from + static_cast<int64_t>(row) * maps.in_width;
#pragma unroll
            for (int c = 0; c < kAboveColumns; ++c) {
                const float value = left[c] * to_float(line[offset[c]]);
                blended[c] = one_column ? value : value + right[c] * to_float(line[offset[c] + step[c]]);
            }
        };
        int known = -2;  // the input row that `upper` holds; `lower` has the next
        for (uint32_t row = first_row; row < min(first_row + kAboveRows, maps.height); ++row, to += maps.width) {
            const TwoTaps down(row, maps.in_height, maps.height, maps.scale_down);
            if (down.first != known) {
                if (down.first == known + 1 && !one_row) {
#pragma unroll
                    for (int c = 0; c < kAboveColumns; ++c) upper[c] = lower[c];
                } else {
                    blend(down.first, upper);
                }
                if (!one_row) blend(down.first + down.step, lower);
                known = down.first;
            }
            uint8_t above[kAboveColumns];
#pragma unroll
            for (int c = 0; c < kAboveColumns; ++c) {
                const float value = down.weight[0] * upper[c] + (one_row ? 0.0F : down.weight[1] * lower[c]);
                above[c] = value > maps.threshold ? 1 : 0;
            }
            if (whole) {
                *reinterpret_cast<uchar4*>(to) = {above[0], above[1], above[2], above[3]};
            } else {
                for (int c = 0; c < kAboveColumns; ++c)
                    if (column + c < maps.width) to[c] = above[c];
            }
        }
    }
}

// The usual case, in which both sizes grow. A block draws some rows of a mask: it brings the input rows beside them
// into shared memory, and each of its warps walks down a strip of columns, in which a thread has kFours times four
// neighbours. An input row is blended across once, for the output rows above and below it.
constexpr int kFours = 2;
constexpr uint32_t kFour = 4 * 32;  // columns of a warp's fours
constexpr uint32_t kStrip = kFours * kFour;
constexpr int64_t kMostWarps = 8;  // of a block
constexpr int64_t kMostRows = 48;  // of the output, of a block
constexpr int64_t kFewRows = 12;
constexpr int64_t kManyBlocks = 1024;  // which have no need of more, with fewer rows
constexpr size_t kStripMemory = size_t{47} << 10U;

// The sum of two values with their weights. The first of four columns rounds the first product and the others the
// second, as above_kernel does: so a mask does not depend on which of the kernels drew it.
__device__ float weighted_sum(int column, float weight_a, float a, float weight_b, float b) {
    return column % 4 == 0 ? __fmaf_rn(weight_b, b, __fmul_rn(weight_a, a))
                           : __fmaf_rn(weight_a, a, __fmul_rn(weight_b, b));
}

// A byte for each of four numbers: 1 where it is negative. PRMT repeats the sign of a byte over another one.
__device__ uint32_t signs(float a, float b, float c, float d) {
    uint32_t low, high;
    asm("prmt.b32 %0, %1, %2, 0x00fb;\n" : "=r"(low) : "r"(__float_as_uint(a)), "r"(__float_as_uint(b)));
    asm("prmt.b32 %0, %1, %2, 0x00fb;\n" : "=r"(high) : "r"(__float_as_uint(c)), "r"(__float_as_uint(d)));
    return __byte_perm(low, high, 0x5410) & 0x01010101U;
}

// A position between input elements: after the first, by a fraction of the way to the next.
struct Between {
    int first;
    float fraction;

    Between() = default;
    // As in TwoTaps, of an output that is larger.
    __device__ Between(uint32_t i, int in, float scale) {
        const float source = fmaxf(fmaf(scale, static_cast<float>(i) + 0.5F, -0.5F), 0.0F);
        first = min(static_cast<int>(source), in - 1);
        fraction = __saturatef(source - static_cast<float>(first));
    }
};

// Brings rows of `columns` elements into shared memory, kWidth at a time; it does not wait for pieces of 16 bytes. What
// lies behind the `last` element of a row repeats it.
template <int kWidth, typename T>
__device__ void fetch_rows(const T* x, int in_width, int rows, int columns, int last, int stride, T* input) {
    for (int c = static_cast<int>(threadIdx.y * 32 + threadIdx.x) * kWidth; c < columns;
         c += static_cast<int>(blockDim.y) * 32 * kWidth) {
        const T* source = x + min(c, last);
        T* to = input + c;
        if (kWidth > 1 && c <= last) {
            unsigned address = shared_address(to);
            for (int r = 0; r < rows; ++r, source += in_width, address += stride * sizeof(T))
                copy_async(address, source, true);
        } else {
            for (int r = 0; r < rows; ++r, source += in_width, to += stride) *to = *source;
        }
    }
}

// A thread's columns: what they are blended of, across.
struct StripColumns {
    int at[4 * kFours];
    float weight[4 * kFours][2];

    __device__ StripColumns(const AboveMaps& maps, uint32_t column, int from) {
#pragma unroll
        for (int c = 0; c < 4 * kFours; ++c) {
            const Between across(column + c / 4 * kFour + c % 4, maps.in_width, maps.scale_across);
            at[c] = across.first - from;
            weight[c][0] = 1.0F - across.fraction;
            weight[c][1] = across.fraction;
        }
    }
    template <typename T>
    __device__ void blend(const T* row, float (&values)[4 * kFours]) const {
#pragma unroll
        for (int c = 0; c < 4 * kFours; ++c)
            values[c] = weighted_sum(c, weight[c][0], to_float(row[at[c]]), weight[c][1], to_float(row[at[c] + 1]));
    }
};

// kAligned: rows of results are whole fours of bytes.
template <int kWidth, bool kAligned, typename T>
__global__ void __launch_bounds__(kMostWarps * 32, 4)
    magnified_above(AboveMaps maps, uint32_t block_rows, int stride, const T* x, uint8_t* out) {
    extern __shared__ uint4 strip_memory[];
    __shared__ Between rows[kMostRows + 1];  // from the block's first input row on; less than zero after the last
    auto* const input = reinterpret_cast<T*>(strip_memory);
    const uint32_t first_row = blockIdx.y * block_rows;
    const uint32_t count = min(block_rows, maps.height - first_row);
    const uint32_t first_column = blockIdx.x * blockDim.y * kStrip;
    const int64_t map = blockIdx.z;
    const auto down_of = [&](uint32_t row) { return Between(row, maps.in_height, maps.scale_down); };
    const int first = down_of(first_row).first;
    const int from = Between(first_column, maps.in_width, maps.scale_across).first / kWidth * kWidth;
    // The row after the last of a map is the last once more, as is the element after the last of a row.
    const int fetched = min(down_of(first_row + count - 1).first + 2, maps.in_height) - first;
    const int last = maps.in_width - 1 - from;
    fetch_rows<kWidth>(x + (map * maps.in_height + first) * maps.in_width + from, maps.in_width, fetched,
                       min(stride, last + 2), last, stride, input);
    commit_copies();
    for (uint32_t i = threadIdx.y * 32 + threadIdx.x; i <= count; i += blockDim.y * 32) {
        rows[i] = down_of(first_row + i);
        rows[i].first = i < count ? rows[i].first - first : -1;
    }
    const uint32_t column = first_column + threadIdx.y * kStrip + threadIdx.x * 4;
    const StripColumns columns(maps, column, from);
    wait_for_copies<0>();
    __syncthreads();

    if (column >= maps.width) return;
    uint8_t* to = out + (map * maps.height + first_row) * maps.width + column;
    const Between* next = rows;
    Between down = *next;
    int number = 0;  // of the input row that comes next
    const T* row = input;
    const auto blend_next = [&](float(&values)[4 * kFours]) {
        columns.blend(row, values);
        if (++number < fetched) row += stride;
    };
    // The output rows between two input rows.
    const auto draw = [&](const float(&upper)[4 * kFours], const float(&lower)[4 * kFours]) {
        while (down.first == number - 2) {
            const float lower_weight = down.fraction, upper_weight = 1.0F - down.fraction;
            down = *++next;
#pragma unroll
            for (int four = 0; four < kFours; ++four) {
                float below[4];  // negative where the value is above the threshold; not where it is no number
#pragma unroll
                for (int c = 0; c < 4; ++c)
                    below[c] = maps.threshold -
                               weighted_sum(c, upper_weight, upper[four * 4 + c], lower_weight, lower[four * 4 + c]);
                const uint32_t above = signs(below[0], below[1], below[2], below[3]);
                const uint32_t at = four * kFour;
                if constexpr (kAligned) {
                    if (column + at < maps.width) *reinterpret_cast<uint32_t*>(to + at) = above;
                } else {
#pragma unroll
                    for (uint32_t c = 0; c < 4; ++c)
                        if (column + at + c < maps.width) to[at + c] = static_cast<uint8_t>(above >> (c * 8));
                }
            }
            to += maps.width;
        }
    };
    float even[4 * kFours], odd[4 * kFours];
    blend_next(even);
    while (down.first >= 0) {
        blend_next(odd);
        draw(even, odd);
        if (down.first < 0) break;
        blend_next(even);
        draw(odd, even);
    }
}

template <typename T>
void start_magnified(const AboveMaps& maps, const T* x, uint8_t* out, cudaStream_t stream) {
    constexpr int kWide = kPiece<T>;
    const int64_t strips = blocks_for(maps.width, kStrip);
    const int64_t blocks = blocks_for(strips, kMostWarps);
    const int64_t warps = blocks_for(strips, blocks);
    // Positions are rounded, the element after the last is read, and the first may lie inside a piece.
    const auto room_for = [](int64_t outputs, float scale) {
        return static_cast<int64_t>(static_cast<float>(outputs - 1) * scale) + 4;
    };
    const int64_t stride = blocks_for(room_for(warps * kStrip, maps.scale_across) + kWide, kWide) * kWide;
    const auto memory = [&](int64_t rows) {
        return static_cast<size_t>(room_for(rows, maps.scale_down) * stride) * sizeof(T);
    };
    int64_t rows = kMostRows;
    while (rows > kFewRows && maps.count * blocks * blocks_for(maps.height, rows) < kManyBlocks) rows /= 2;
    while (rows > 1 && memory(rows) > kStripMemory) rows /= 2;
    const auto start = [&](auto kernel) {
        const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(blocks_for(maps.height, rows)),
                        static_cast<unsigned>(maps.count));
        kernel<<<grid, dim3(32, static_cast<unsigned>(warps)), memory(rows), stream>>>(
            maps, static_cast<uint32_t>(rows), static_cast<int>(stride), x, out);
    };
    const bool pieces = maps.in_width % kWide == 0 && is_aligned(x, 16);
    if (maps.width % 4 == 0 && is_aligned(out, 4))
        start(pieces ? magnified_above<kWide, true, T> : magnified_above<1, true, T>);
    else
        start(pieces ? magnified_above<kWide, false, T> : magnified_above<1, false, T>);
}

}  // namespace

void resize_above(const ExecContext& context, const ResizeAboveArgs& args) {
    AboveMaps maps;
    maps.count = args.out.dim(0);
    maps.in_height = static_cast<int>(count_of("resize_above", args.x.dim(1)));
    maps.in_width = static_cast<int>(count_of("resize_above", args.x.dim(2)));
    maps.height = count_of("resize_above", args.out.dim(1));
    maps.width = count_of("resize_above", args.out.dim(2));
    maps.scale_down = scale_of(maps.in_height, maps.height);
    maps.scale_across = scale_of(maps.in_width, maps.width);
    maps.threshold = args.threshold;
    const dim3 grid(static_cast<unsigned>(blocks_for(maps.width, kAboveBlock.x * kAboveColumns)),
                    static_cast<unsigned>(blocks_for(maps.height, kAboveBlock.y * kAboveRows)),
                    static_cast<unsigned>(std::min(maps.count, kMostLayers)));
    const bool magnifies =
        args.x.dim(1) < args.out.dim(1) && args.x.dim(2) < args.out.dim(2) && maps.count <= kMostLayers;
    for_float_type(args.x.dtype(), [&](auto type) {
        using T = typename decltype(type)::type;
        const T* const x = args.x.data<const T>();
        auto* const out = args.out.data<uint8_t>();
        launch(context, "resize_above", [&](cudaStream_t stream) {
            if (magnifies)
                start_magnified(maps, x, out, stream);
            else
                above_kernel<T><<<grid, kAboveBlock, 0, stream>>>(maps, x, out);
        });
    });
}

}  // namespace sam3::cuda
