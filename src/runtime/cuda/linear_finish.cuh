#pragma once

#include "runtime/cuda/mma.cuh"
#include "runtime/cuda/strided.cuh"

#include <type_traits>

// What linear_wgmma.cu and conv2d_wgmma.cu do with sums before they leave: scales, bias, activation, residual or
// rotation, in pieces of some rows of 64 channels in shared memory, as bulk copies take and bring them.
namespace sam3::cuda {

constexpr int kRows = 160;  // of x and out
constexpr int kHalves = 2;  // a piece of the results: half of a block's rows
constexpr int kPieceRows = kRows / kHalves;
constexpr int kWide = 64;

enum class Finish { none, relu, gelu, residual, rotation };

// Which channels are rotated, and by what: as RopeArgs says. Positions are those of eight rows at a time.
struct Rotation {
    const float2* table = nullptr;
    int channels = 0;
    Divisor columns, window, positions;

    static constexpr int kPairs = kWide / 2;  // of a head
    __device__ int position(int row) const {
        auto y = static_cast<uint32_t>(row);
        if (window.divisor == 1) return static_cast<int>(positions.take(y));
        uint32_t x = columns.take(y);
        return static_cast<int>(window.take(y) * window.divisor + window.take(x));
    }
};

__device__ inline float2 load_floats(unsigned from) {
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];\n" : "=f"(v.x), "=f"(v.y) : "r"(from));
    return v;
}

template <typename Out>
__device__ inline unsigned pack_as(float2 v) {
    if constexpr (std::is_same_v<Out, bf16>) {
        return pack(v.x, v.y);
    } else {
        constexpr float kMost = 65504.0F;  // a stream that outgrows its type stays finite
        const __half2 both = __floats2half2_rn(fminf(fmaxf(v.x, -kMost), kMost), fminf(fmaxf(v.y, -kMost), kMost));
        return *reinterpret_cast<const unsigned*>(&both);
    }
}
template <typename Out>
__device__ inline float2 unpacked(unsigned bits) {
    if constexpr (std::is_same_v<Out, bf16>)
        return {__uint_as_float(bits << 16), __uint_as_float(bits & 0xFFFF0000U)};
    else
        return __half22float2(*reinterpret_cast<const __half2*>(&bits));
}

// GELU in its tanh form: off by up to 5e-4 from the exact one, which bf16's own rounding hides.
__device__ inline float fast_gelu(float x) {
    constexpr float kScale = 0.7978845608F;  // sqrt(2 / pi)
    const float u = x * (kScale + kScale * 0.044715F * (x * x));
    float t;
    asm("tanh.approx.f32 %0, %1;\n" : "=f"(t) : "f"(u));
    const float half = 0.5F * x;
    return half + half * t;
}

// What a thread has of a warpgroup's sums: two neighbouring channels of a block, of two rows in eight.
struct Part {
    int channel, row;  // in the block and in the eight
    unsigned place[2];

    __device__ Part() {
        const int lane = threadIdx.x % 32;
        const int warp = threadIdx.x / 32 % 4;
        channel = warp * 16 + lane / 4 * 2;
        row = lane % 4 * 2;
        for (int i = 0; i < 2; ++i)
            place[i] = (row + i) * (kWide * 2) + (((channel / 8) ^ (row + i)) * 16) + channel % 8 * 2;
    }
};

// The angles of a thread's channels in a piece: asked for long before they are used.
struct Angles {
    float2 v[kPieceRows / 8][2];

    __device__ void load(const Rotation& rotation, const Part& part, int first_row) {
#pragma unroll
        for (int n = 0; n < kPieceRows / 8; ++n) {
            const int position = rotation.position(first_row + n * 8) + part.row;
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float2* const from = rotation.table + (position + i) * Rotation::kPairs + part.channel / 2;
                asm volatile("ld.global.nc.v2.f32 {%0, %1}, [%2];\n" : "=f"(v[n][i].x), "=f"(v[n][i].y) : "l"(from));
            }
        }
    }
    __device__ float2 turned(float2 x, int n, int i) const {
        return {x.x * v[n][i].x - x.y * v[n][i].y, x.y * v[n][i].x + x.x * v[n][i].y};
    }
};

// What belongs to a thread's two channels.
struct Channels {
    float2 bias{0.0F, 0.0F}, scale{1.0F, 1.0F};
};

// One piece, which begins at `sums`, into its place; `scales`: of its rows.
template <Finish kFinish, bool kCodes, typename Out>
__device__ inline void finish_piece(unsigned to, const Part& part, const float* sums, const Channels& channels,
                                    unsigned scales, const Angles& angles, bool rotates) {
    constexpr int kRun = 5;  // times eight rows that are read at once
    static_assert(kPieceRows / 8 % kRun == 0);
#pragma unroll
    for (int first = 0; first < kPieceRows / 8; first += kRun) {
        unsigned more[kRun][2];
        if constexpr (kFinish == Finish::residual) {
#pragma unroll
            for (int n = 0; n < kRun; ++n)
#pragma unroll
                for (int i = 0; i < 2; ++i) more[n][i] = load_shared(to + part.place[i] + (first + n) * 8 * kWide * 2);
        }
#pragma unroll
        for (int n = first; n < first + kRun; ++n) {
            float2 row{1.0F, 1.0F};
            if constexpr (kCodes) row = load_floats(scales + (n * 8 + part.row) * 4);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float2 v = {sums[4 * n + i], sums[4 * n + 2 + i]};
                if constexpr (kCodes) {
                    const float scale = i == 0 ? row.x : row.y;
                    v = {v.x * (scale * channels.scale.x), v.y * (scale * channels.scale.y)};
                }
                v = {v.x + channels.bias.x, v.y + channels.bias.y};
                if constexpr (kFinish == Finish::relu) v = {fmaxf(v.x, 0.0F), fmaxf(v.y, 0.0F)};
                if constexpr (kFinish == Finish::gelu) v = {fast_gelu(v.x), fast_gelu(v.y)};
                if constexpr (kFinish == Finish::residual) {
                    const float2 old = unpacked<Out>(more[n - first][i]);
                    v = {v.x + old.x, v.y + old.y};
                }
                if (kFinish == Finish::rotation && rotates) v = angles.turned(v, n, i);
                store_shared(to + part.place[i] + n * 8 * kWide * 2, pack_as<Out>(v));
            }
        }
    }
}

}  // namespace sam3::cuda
