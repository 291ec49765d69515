#include "runtime/cuda/strided.cuh"

#include <algorithm>

// Moving elements without computing: copies with a change of type, permutations, constants.
namespace sam3::cuda {

namespace {

// Narrowing rounds to nearest, except towards integers of 32 bits, which are cut as in PyTorch; integers saturate and
// a NaN becomes 0, as on the CPU.
template <typename To, typename From>
__device__ To convert(From x) {
    if constexpr (std::is_same_v<To, int32_t> && std::is_same_v<From, uint8_t>)
        return static_cast<int32_t>(x);
    else if constexpr (std::is_same_v<To, uint8_t> && std::is_same_v<From, int32_t>)
        return static_cast<uint8_t>(min(max(x, 0), 255));
    else if constexpr (std::is_same_v<To, uint8_t>)
        return static_cast<uint8_t>(__float2uint_rn(fminf(fmaxf(to_float(x), 0.0F), 255.0F)));
    else if constexpr (std::is_same_v<To, int32_t>)
        return __float2int_rz(to_float(x));
    else
        return from_float<To>(to_float(x));
}

// Elements that are read or written at once.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
    T at[kCount];
};

template <typename From, typename To, int kWidth>
__global__ void convert_kernel(Walk<2> walk, const From* x, To* out) {
    const uint32_t i = thread_number();
    if (i >= walk.count) return;
    int64_t at[2];
    walk.offsets(i, at);
    const auto from = *reinterpret_cast<const Pack<From, kWidth>*>(x + at[0]);
    Pack<To, kWidth> to;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) to.at[k] = convert<To>(from.at[k]);
    *reinterpret_cast<Pack<To, kWidth>*>(out + at[1]) = to;
}

template <typename Unit>
__global__ void copy_kernel(Walk<2> walk, const Unit* x, Unit* out) {
    const uint32_t i = thread_number();
    if (i >= walk.count) return;
    int64_t at[2];
    walk.offsets(i, at);
    out[at[1]] = x[at[0]];
}

template <typename T, int kWidth>
__global__ void fill_kernel(Walk<1> walk, float value, T* out) {
    const uint32_t i = thread_number();
    if (i >= walk.count) return;
    int64_t at[1];
    walk.offsets(i, at);
    Pack<T, kWidth> pack;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) pack.at[k] = convert<T>(value);
    *reinterpret_cast<Pack<T, kWidth>*>(out + at[0]) = pack;
}

template <typename F>
void for_element_type(const char* op, DType type, const F& f) {
    switch (type) {
        case DType::f32: return f(Type<float>{});
        case DType::f16: return f(Type<__half>{});
        case DType::bf16: return f(Type<bf16>{});
        case DType::i32: return f(Type<int32_t>{});
        case DType::u8: return f(Type<uint8_t>{});
        case DType::i8: break;
    }
    fail(op, ": no conversion from or to ", name_of(type), "; f32, f16, bf16, i32 and u8 are possible");
}

// Calls `f` with an integer type of so many bytes.
template <typename F>
void for_unit(size_t bytes, const F& f) {
    switch (bytes) {
        case 1: return f(Type<uint8_t>{});
        case 2: return f(Type<uint16_t>{});
        case 4: return f(Type<uint32_t>{});
        case 8: return f(Type<uint2>{});
        default: return f(Type<uint4>{});
    }
}

// Bits are moved, not values: as many bytes at a time as both sides allow.
void copy_bits(const ExecContext& context, const char* op, MergedStrides<2> merged, const Tensor& x,
               const Tensor& out) {
    int64_t width = static_cast<int64_t>(16 / size_of(x.dtype()));
    while (width > 1 && !(has_steps(merged, 0, x, width) && has_steps(merged, 1, out, width))) width /= 2;
    if (width > 1) {  // the walk counts units
        merged.dims[merged.rank - 1] /= width;
        merged.total /= width;
        for (auto& strides : merged.strides)
            for (int i = 0; i + 1 < merged.rank; ++i) strides[i] /= width;
    }
    for_unit(static_cast<size_t>(width) * size_of(x.dtype()), [&](auto type) {
        using Unit = typename decltype(type)::type;
        for_each_part(merged, 1, [&](const Walk<2>& walk, const std::array<int64_t, 2>& from) {
            launch(context, op, [&](cudaStream_t stream) {
                copy_kernel<<<blocks_of(walk.count), kThreads, 0, stream>>>(walk, x.data<const Unit>() + from[0],
                                                                            out.data<Unit>() + from[1]);
            });
        });
    });
}

// Where parts that lie one behind the other begin, in units; one launch moves them all.
struct Parts {
    static constexpr int kMost = 128;
    const void* from[kMost];
    uint32_t first[kMost + 1];
    int count;
};

template <typename Unit>
__global__ void join_parts_kernel(const __grid_constant__ Parts parts, Unit* out) {
    const uint32_t i = thread_number();
    if (i >= parts.first[parts.count]) return;
    int part = 0;
    for (int end = parts.count; end - part > 1;) {
        const int middle = (part + end) / 2;
        (parts.first[middle] <= i ? part : end) = middle;
    }
    out[i] = static_cast<const Unit*>(parts.from[part])[i - parts.first[part]];
}

size_t bytes_of(const Tensor& x) { return static_cast<size_t>(x.numel()) * size_of(x.dtype()); }

constexpr int kTile = 32;
constexpr int kTileRows = 8;  // of a tile that a block moves at a time

// The two dimensions of a permutation that are contiguous on one side each, and those around them.
struct Transpose {
    uint32_t rows, columns;  // columns: contiguous in the result; rows: contiguous, or nearly so, in the source
    int64_t source_row, source_column, result_row;  // strides
    Divisor down, across;                           // how many tiles
    Walk<2> outer;

    explicit Transpose(const MergedStrides<2>& merged) {
        const int last = merged.rank - 1;
        int row = 0;
        for (int i = 1; i < last; ++i)
            if (merged.strides[0][i] < merged.strides[0][row]) row = i;
        rows = count_of("permute", merged.dims[row]);
        columns = count_of("permute", merged.dims[last]);
        source_row = merged.strides[0][row];
        source_column = merged.strides[0][last];
        result_row = merged.strides[1][row];
        down = Divisor(blocks_for(rows, kTile));
        across = Divisor(blocks_for(columns, kTile));
        outer.rank = 0;
        outer.count = 1;
        for (int i = 0; i < last; ++i) {
            if (i == row) continue;
            outer.size[outer.rank] = Divisor(merged.dims[i]);
            outer.stride[0][outer.rank] = merged.strides[0][i];
            outer.stride[1][outer.rank++] = merged.strides[1][i];
            outer.count *= static_cast<uint32_t>(merged.dims[i]);
        }
        outer.rank = std::max(outer.rank, 1);
    }
};

// A block moves a square: read along the source's rows, written along the result's.
template <typename T>
__global__ void transpose_kernel(Transpose t, const T* x, T* out) {
    __shared__ T tile[kTile][kTile + 1];
    uint32_t index = blockIdx.x;
    const uint32_t column = t.across.take(index) * kTile;
    const uint32_t row = t.down.take(index) * kTile;
    int64_t at[2];
    t.outer.offsets(index, at);
    const uint32_t across = threadIdx.x;
    for (uint32_t i = threadIdx.y; i < kTile; i += kTileRows)
        if (row + across < t.rows && column + i < t.columns)
            tile[i][across] = x[at[0] + (row + across) * t.source_row + (column + i) * t.source_column];
    __syncthreads();
    for (uint32_t i = threadIdx.y; i < kTile; i += kTileRows)
        if (row + i < t.rows && column + across < t.columns)
            out[at[1] + (row + i) * t.result_row + column + across] = tile[across][i];
}

}  // namespace

void copy(const ExecContext& context, const CopyArgs& args) {
    const MergedStrides<2> merged(args.x.shape(), {args.x.strides(), args.out.strides()});
    if (args.x.dtype() == args.out.dtype()) return copy_bits(context, "copy", merged, args.x, args.out);
    const bool fours = has_steps(merged, 0, args.x, 4) && has_steps(merged, 1, args.out, 4);
    const auto start = [&](auto width, auto from_type, auto to_type) {
        constexpr int kWidth = decltype(width)::value;
        using From = typename decltype(from_type)::type;
        using To = typename decltype(to_type)::type;
        for_each_part(merged, kWidth, [&](const Walk<2>& walk, const std::array<int64_t, 2>& from) {
            launch(context, "copy", [&](cudaStream_t stream) {
                convert_kernel<From, To, kWidth><<<blocks_of(walk.count), kThreads, 0, stream>>>(
                    walk, args.x.data<const From>() + from[0], args.out.data<To>() + from[1]);
            });
        });
    };
    for_element_type("copy", args.x.dtype(), [&](auto from) {
        for_element_type("copy", args.out.dtype(), [&](auto to) {
            if constexpr (!std::is_same_v<decltype(from), decltype(to)>)
                for_width(fours, [&](auto width) { start(width, from, to); });
        });
    });
}

void join(const ExecContext& context, const JoinArgs& args) {
    size_t unit = 16;
    for (const Tensor& part : args.parts)
        while (bytes_of(part) % unit != 0 || !is_aligned(part.raw(), unit)) unit /= 2;
    while (!is_aligned(args.out.raw(), unit)) unit /= 2;
    char* to = static_cast<char*>(args.out.raw());
    for (size_t begin = 0; begin < args.parts.size(); begin += Parts::kMost) {
        Parts parts{};
        int64_t units = 0;
        for (size_t i = begin; i < std::min(args.parts.size(), begin + Parts::kMost); ++i) {
            parts.from[parts.count] = args.parts[i].raw();
            parts.first[parts.count++] = count_of("concat", units);
            units += static_cast<int64_t>(bytes_of(args.parts[i]) / unit);
        }
        parts.first[parts.count] = count_of("concat", units);
        for_unit(unit, [&](auto type) {
            using Unit = typename decltype(type)::type;
            launch(context, "concat", [&](cudaStream_t stream) {
                join_parts_kernel<<<blocks_of(units), kThreads, 0, stream>>>(parts, reinterpret_cast<Unit*>(to));
            });
        });
        to += static_cast<size_t>(units) * unit;
    }
}

void permute(const ExecContext& context, const PermuteArgs& args) {
    Shape strides;
    for (int i = 0; i < args.x.rank(); ++i) strides.push_back(args.x.stride(args.order[i]));
    const MergedStrides<2> merged(args.out.shape(), {strides, args.out.strides()});
    if (merged.rank == 1 || merged.inner_stride(0) <= 1) return copy_bits(context, "permute", merged, args.x, args.out);
    const Transpose t(merged);
    const int64_t tiles = static_cast<int64_t>(t.outer.count) * t.down.divisor * t.across.divisor;
    const uint32_t blocks = count_of("permute", tiles);
    for_unit(size_of(args.x.dtype()), [&](auto type) {
        using T = typename decltype(type)::type;
        launch(context, "permute", [&](cudaStream_t stream) {
            transpose_kernel<<<blocks, dim3(kTile, kTileRows), 0, stream>>>(t, args.x.data<const T>(),
                                                                            args.out.data<T>());
        });
    });
}

void fill(const ExecContext& context, const FillArgs& args) {
    const MergedStrides<1> merged(args.out.shape(), {args.out.strides()});
    for_element_type("fill", args.out.dtype(), [&](auto type) {
        using T = typename decltype(type)::type;
        for_width(has_steps(merged, 0, args.out, 4), [&](auto width) {
            constexpr int kWidth = decltype(width)::value;
            for_each_part(merged, kWidth, [&](const Walk<1>& walk, const std::array<int64_t, 1>& from) {
                launch(context, "fill", [&](cudaStream_t stream) {
                    fill_kernel<T, kWidth><<<blocks_of(walk.count), kThreads, 0, stream>>>(
                        walk, args.value, args.out.data<T>() + from[0]);
                });
            });
        });
    });
}

}  // namespace sam3::cuda
