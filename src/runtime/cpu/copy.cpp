#include "runtime/cpu/convert.h"
#include "runtime/cpu/kernels.h"
#include "runtime/cpu/strided.h"

#include <cstring>
#include <type_traits>
#include <utility>

namespace sam3::cpu {

namespace {

using Loop = StridedLoop<2>;  // source, destination
using Offsets = std::array<int64_t, 2>;

template <typename From, typename To>
void convert_all(const ExecContext& context, const Loop& loop, const void* source, void* destination) {
    const From* x = static_cast<const From*>(source);
    To* out = static_cast<To*>(destination);
    const int64_t from_stride = loop.inner_stride(0);
    const int64_t to_stride = loop.inner_stride(1);
    loop.run(context, [&](const Offsets& at, int64_t n) {
        const From* from = x + at[0];
        To* to = out + at[1];
        if (from_stride == 1 && to_stride == 1) {
#pragma omp simd
            for (int64_t i = 0; i < n; ++i) to[i] = convert<To>(from[i]);
        } else {
            for (int64_t i = 0; i < n; ++i) to[i * to_stride] = convert<To>(from[i * from_stride]);
        }
    });
}

// Element is any type of the right size: bits are moved, not values.
template <typename Element>
void copy_all(const ExecContext& context, const Loop& loop, const void* source, void* destination) {
    const Element* x = static_cast<const Element*>(source);
    Element* out = static_cast<Element*>(destination);
    const int64_t from_stride = loop.inner_stride(0);
    const int64_t to_stride = loop.inner_stride(1);
    loop.run(context, [&](const Offsets& at, int64_t n) {
        const Element* from = x + at[0];
        Element* to = out + at[1];
        if (from_stride == 1 && to_stride == 1)
            std::memcpy(to, from, static_cast<size_t>(n) * sizeof(Element));
        else if (from_stride == 0 && to_stride == 1)
            std::fill_n(to, n, *from);
        else
            for (int64_t i = 0; i < n; ++i) to[i * to_stride] = from[i * from_stride];
    });
}

// Calls body with a value of the C++ type that stands for `type`.
template <typename Body>
void with_type(const char* op, DType type, const Body& body) {
    switch (type) {
        case DType::f32: return body(float{});
        case DType::f16: return body(Half{});
        case DType::bf16: return body(BFloat16{});
        case DType::i32: return body(int32_t{});
        case DType::u8: return body(uint8_t{});
        case DType::i8: break;
    }
    fail(op, ": no conversion from or to ", name_of(type), "; f32, f16, bf16, i32 and u8 are possible");
}

// Calls body with an unsigned integer as large as one element of `type`.
template <typename Body>
void with_size(DType type, const Body& body) {
    switch (size_of(type)) {
        case 1: return body(uint8_t{});
        case 2: return body(uint16_t{});
        default: return body(uint32_t{});
    }
}

// The two dimensions of a permutation that are contiguous on one side each, and those around them.
struct Transpose {
    int64_t rows, columns;  // columns: contiguous in the result; rows: contiguous, or nearly so, in the source
    int64_t source_row, source_column, result_row;  // strides
    int outer_rank = 0;
    std::array<int64_t, Shape::kMaxRank> dims{}, source{}, result{};

    explicit Transpose(const Loop& loop) {
        const int last = loop.rank - 1;
        int row = 0;
        for (int i = 1; i < last; ++i)
            if (loop.strides[0][i] < loop.strides[0][row]) row = i;
        rows = loop.dims[row];
        columns = loop.dims[last];
        source_row = loop.strides[0][row];
        source_column = loop.strides[0][last];
        result_row = loop.strides[1][row];
        for (int i = 0; i < last; ++i) {
            if (i == row) continue;
            dims[outer_rank] = loop.dims[i];
            source[outer_rank] = loop.strides[0][i];
            result[outer_rank++] = loop.strides[1][i];
        }
    }
    int64_t outer() const {
        int64_t n = 1;
        for (int i = 0; i < outer_rank; ++i) n *= dims[i];
        return n;
    }
    Offsets offsets(int64_t index) const {
        Offsets at{};
        for (int i = outer_rank - 1; i >= 0; --i) {
            at[0] += index % dims[i] * source[i];
            at[1] += index % dims[i] * result[i];
            index /= dims[i];
        }
        return at;
    }
};

// A square that fits the first-level cache on both sides: every line of either side is fetched once.
constexpr int64_t kTile = 32;
constexpr int64_t kBandColumns = 64 * kTile;

template <typename Element>
void transpose_band(const Transpose& t, const Element* x, Element* out, int64_t rows, int64_t columns) {
    for (int64_t start = 0; start < columns; start += kTile) {
        const int64_t width = std::min(kTile, columns - start);
        for (int64_t r = 0; r < rows; ++r) {
            const Element* from = x + r * t.source_row + start * t.source_column;
            Element* to = out + r * t.result_row + start;
            for (int64_t c = 0; c < width; ++c) to[c] = from[c * t.source_column];
        }
    }
}

template <typename Element>
void transpose_all(const ExecContext& context, const Loop& loop, const void* source, void* destination) {
    const Element* x = static_cast<const Element*>(source);
    Element* out = static_cast<Element*>(destination);
    const Transpose t(loop);
    const int64_t down = (t.rows + kTile - 1) / kTile;
    const int64_t across = (t.columns + kBandColumns - 1) / kBandColumns;
    const int64_t tasks = t.outer() * down * across;
    const int threads = threads_for(context, loop.total);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t task = 0; task < tasks; ++task) {
        const Offsets at = t.offsets(task / (down * across));
        const int64_t row = task / across % down * kTile;
        const int64_t column = task % across * kBandColumns;
        transpose_band(t, x + at[0] + row * t.source_row + column * t.source_column,
                       out + at[1] + row * t.result_row + column, std::min(kTile, t.rows - row),
                       std::min(kBandColumns, t.columns - column));
    }
}

}  // namespace

void copy(const ExecContext& context, const CopyArgs& args) {
    const Loop loop(args.x.shape(), {args.x.strides(), args.out.strides()});
    if (args.x.dtype() == args.out.dtype()) {
        with_size(args.x.dtype(),
                  [&](auto element) { copy_all<decltype(element)>(context, loop, args.x.raw(), args.out.raw()); });
        return;
    }
    with_type("copy", args.x.dtype(), [&](auto from) {
        with_type("copy", args.out.dtype(), [&](auto to) {
            if constexpr (!std::is_same_v<decltype(from), decltype(to)>)
                convert_all<decltype(from), decltype(to)>(context, loop, args.x.raw(), args.out.raw());
        });
    });
}

void join(const ExecContext& context, const JoinArgs& args) {
    const Tensor out = args.out.reshape({args.out.numel()});
    int64_t at = 0;
    for (const Tensor& part : args.parts) {
        copy(context, {part.reshape({part.numel()}), out.slice(0, at, part.numel())});
        at += part.numel();
    }
}

void permute(const ExecContext& context, const PermuteArgs& args) {
    Shape strides;
    for (int i = 0; i < args.x.rank(); ++i) strides.push_back(args.x.stride(args.order[i]));
    const Loop loop(args.out.shape(), {strides, args.out.strides()});
    with_size(args.x.dtype(), [&](auto element) {
        if (loop.rank == 1 || loop.inner_stride(0) <= 1)
            copy_all<decltype(element)>(context, loop, args.x.raw(), args.out.raw());
        else
            transpose_all<decltype(element)>(context, loop, args.x.raw(), args.out.raw());
    });
}

void fill(const ExecContext& context, const FillArgs& args) {
    const StridedLoop<1> loop(args.out.shape(), {args.out.strides()});
    const int64_t stride = loop.inner_stride(0);
    with_type("fill", args.out.dtype(), [&](auto type) {
        using Element = decltype(type);
        const Element value = from_float<Element>(args.value);
        Element* out = args.out.data<Element>();
        loop.run(context, [&](const std::array<int64_t, 1>& at, int64_t n) {
            Element* to = out + at[0];
            if (stride == 1)
                std::fill_n(to, n, value);
            else
                for (int64_t i = 0; i < n; ++i) to[i * stride] = value;
        });
    });
}

}  // namespace sam3::cpu
