#include "runtime/cuda/strided.cuh"

#include <algorithm>

// Rotates pairs of channels by angles that depend on the token's position. A thread takes four pairs, or one, of
// several heads and of all tokens of an image that have the same position: their angles are read once.
namespace sam3::cuda {

namespace {

constexpr int kHeadStep = 4;  // a thread turns the same pairs of every fourth head

// A token list is a map of one row.
struct Rope {
    uint32_t count;
    Divisor head_pieces;  // of one head
    Divisor head_step;
    Divisor columns, rows;
    uint32_t repeats;  // of the positions, in a token list
    int64_t batch_stride, row_stride, column_stride;
    Divisor window;  // 1 without windows
    bool has_windows;
};

Rope rope_of(const RopeArgs& args, int pairs) {
    const Tensor& x = args.x;
    const bool windows = args.window > 0;
    const int64_t pieces = x.dim(-1) / args.heads / 2 / pairs;
    const int64_t head_step = std::min(args.heads, kHeadStep);
    const int64_t repeats = windows ? 1 : x.dim(1) / args.table.dim(0);
    Rope rope;
    rope.count = count_of("rope_2d", x.numel() / x.dim(-1) / repeats * head_step * pieces);
    rope.head_pieces = Divisor(pieces);
    rope.head_step = Divisor(head_step);
    rope.columns = Divisor(windows ? x.dim(2) : args.table.dim(0));
    rope.rows = Divisor(windows ? x.dim(1) : 1);
    rope.repeats = static_cast<uint32_t>(repeats);
    rope.batch_stride = x.stride(0);
    rope.row_stride = windows ? x.stride(1) : 0;
    rope.column_stride = windows ? x.stride(2) : x.stride(1);
    rope.window = Divisor(windows ? args.window : 1);
    rope.has_windows = windows;
    return rope;
}

__device__ uint32_t remainder_of(const Divisor& divisor, uint32_t n) { return divisor.take(n); }

// v holds two pairs (a, b), t their (cos, sin).
__device__ float4 rotated(float4 v, float4 t) {
    return {v.x * t.x - v.y * t.y, v.y * t.x + v.x * t.y, v.z * t.z - v.w * t.w, v.w * t.z + v.z * t.w};
}

template <int kPairs, typename T>
__global__ void rope_kernel(Rope rope, const float* table, T* x, uint32_t heads) {
    uint32_t index = thread_number();
    if (index >= rope.count) return;
    const uint32_t piece = rope.head_pieces.take(index);
    const uint32_t first_head = rope.head_step.take(index);
    const uint32_t column = rope.columns.take(index);
    const uint32_t row = rope.rows.take(index);
    const uint32_t position =
        rope.has_windows ? remainder_of(rope.window, row) * rope.window.divisor + remainder_of(rope.window, column)
                         : column;
    const uint32_t pieces = rope.head_pieces.divisor;
    const float* const t = table + (static_cast<int64_t>(position) * pieces + piece) * (2 * kPairs);
    T* token = x + index * rope.batch_stride + row * rope.row_stride + column * rope.column_stride;
    const float4 first = load_some<kPairs>(t);
    const float4 second = load_some<kPairs>(t + (kPairs == 4 ? 4 : 1));
    for (uint32_t repeat = 0; repeat < rope.repeats; ++repeat, token += rope.columns.divisor * rope.column_stride)
        for (uint32_t head = first_head; head < heads; head += kHeadStep) {
            T* const v = token + static_cast<int64_t>(head * pieces + piece) * (2 * kPairs);
            if constexpr (kPairs == 4) {
                const float4 a = load4(v);
                const float4 b = load4(v + 4);
                store4(v, rotated(a, first));
                store4(v + 4, rotated(b, second));
            } else {
                const float4 both =
                    rotated({to_float(v[0]), to_float(v[1]), 0.0F, 0.0F}, {first.x, second.x, 0.0F, 0.0F});
                v[0] = from_float<T>(both.x);
                v[1] = from_float<T>(both.y);
            }
        }
}

}  // namespace

void rope_2d(const ExecContext& context, const RopeArgs& args) {
    const Tensor& x = args.x;
    const Tensor table = as_type(context, args.table, DType::f32);
    bool fours =
        x.dim(-1) / args.heads % 8 == 0 && is_aligned(x.raw(), 4 * size_of(x.dtype())) && is_aligned(table.raw(), 16);
    for (int i = 0; i + 1 < x.rank(); ++i) fours = fours && x.stride(i) % 4 == 0;
    for_float_type(x.dtype(), [&](auto type) {
        using T = typename decltype(type)::type;
        for_width(fours, [&](auto width) {
            constexpr int kPairs = decltype(width)::value;
            const Rope rope = rope_of(args, kPairs);
            launch(context, "rope_2d", [&](cudaStream_t stream) {
                rope_kernel<kPairs><<<blocks_of(rope.count), kThreads, 0, stream>>>(
                    rope, table.data<const float>(), x.data<T>(), static_cast<uint32_t>(args.heads));
            });
        });
    });
}

}  // namespace sam3::cuda
