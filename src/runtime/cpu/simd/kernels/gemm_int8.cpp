#include "runtime/cpu/simd/gemm.h"

#include "runtime/cpu/simd/kernels/functions.h"
#include "runtime/cpu/simd/kernels/gemm_tile.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

// Integer sums are exact, so every variant gives the same ones. With VNNI four products of bytes are added at a time;
// without it the codes are widened to 16 bits, of which two products fit one lane. (The old way of multiplying bytes,
// pmaddubsw, saturates.)
namespace sam3::simd::SAM3_SIMD_VARIANT {

namespace {

#if defined(__AVX512VNNI__)
constexpr int kGroup = 4;
using RowCode = uint8_t;
#else
constexpr int kGroup = 2;
using RowCode = int16_t;
#endif

int64_t groups_of(int64_t depth) { return (depth + kGroup - 1) / kGroup; }

#if defined(__AVX512VNNI__)
using WeightVec = __m512i;
SAM3_INLINE WeightVec load_weights(const int8_t* p) { return _mm512_loadu_si512(p); }
SAM3_INLINE IntVec add_products(IntVec sum, IntVec row, WeightVec weights) {
    return reinterpret_cast<IntVec>(
        _mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(row), weights));
}
#elif defined(__AVX512BW__)
using WeightVec = __m512i;
SAM3_INLINE WeightVec load_weights(const int8_t* p) {
    return _mm512_maskz_cvtepi8_epi16(0xFFFFFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
SAM3_INLINE IntVec add_products(IntVec sum, IntVec row, WeightVec weights) {
    return sum + reinterpret_cast<IntVec>(_mm512_maskz_madd_epi16(0xFFFF, reinterpret_cast<__m512i>(row), weights));
}
#elif defined(__AVX2__)
using WeightVec = __m256i;
SAM3_INLINE WeightVec load_weights(const int8_t* p) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
SAM3_INLINE IntVec add_products(IntVec sum, IntVec row, WeightVec weights) {
    return sum + reinterpret_cast<IntVec>(_mm256_madd_epi16(reinterpret_cast<__m256i>(row), weights));
}
#elif defined(__x86_64__)
using WeightVec = __m128i;
SAM3_INLINE WeightVec load_weights(const int8_t* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
}
SAM3_INLINE IntVec add_products(IntVec sum, IntVec row, WeightVec weights) {
    return sum + reinterpret_cast<IntVec>(_mm_madd_epi16(reinterpret_cast<__m128i>(row), weights));
}
#elif defined(__aarch64__)
using WeightVec = int16x8_t;
SAM3_INLINE WeightVec load_weights(const int8_t* p) { return vmovl_s8(vld1_s8(p)); }
SAM3_INLINE IntVec add_products(IntVec sum, IntVec row, WeightVec weights) {
    const int16x8_t pairs = reinterpret_cast<int16x8_t>(row);
    const int32x4_t low = vmull_s16(vget_low_s16(pairs), vget_low_s16(weights));
    const int32x4_t high = vmull_high_s16(pairs, weights);
    return sum + reinterpret_cast<IntVec>(vpaddq_s32(low, high));
}
#else
typedef int16_t WeightVec __attribute__((vector_size(2 * 2 * kLanes)));
SAM3_INLINE WeightVec load_weights(const int8_t* p) {
    WeightVec weights;
    for (int i = 0; i < 2 * kLanes; ++i) weights[i] = p[i];
    return weights;
}
SAM3_INLINE IntVec add_products(IntVec sum, IntVec row, WeightVec weights) {
    const WeightVec pairs = reinterpret_cast<WeightVec>(row);
    for (int i = 0; i < kLanes; ++i) sum[i] += pairs[2 * i] * weights[2 * i] + pairs[2 * i + 1] * weights[2 * i + 1];
    return sum;
}
#endif

// What turns a panel's sums into numbers.
struct Dequantizer {
    Vec scale[kTileVectors];
    IntVec sum[kTileVectors];

    Dequantizer(const Int8Panel& panel, const Columns& columns) {
        for (int j = 0; j < kTileVectors; ++j) {
            const int64_t at = panel.column + j * kLanes;
            scale[j] = load_first(panel.scales + at, columns.lanes[j]);
            sum[j] = IntVec{};
            for (int64_t lane = 0; lane < columns.lanes[j]; ++lane) sum[j][lane] = panel.sums[at + lane];
        }
    }
};

struct Int8Coding {
    using Sum = IntVec;
    using Weights = WeightVec;
    static constexpr int64_t kWeightBytes = kLanes * kGroup;
    SAM3_INLINE Weights load(const uint8_t* p) { return load_weights(reinterpret_cast<const int8_t*>(p)); }
    SAM3_INLINE Sum add(Sum sum, IntVec row, Weights weights) { return add_products(sum, row, weights); }
};

// Adding 1.5 * 2^23 leaves the nearest whole number in the low bits of the float.
constexpr float kRounder = 12582912.0F;
constexpr int32_t kRounderBits = 0x4B400000;

// v * factor rounded once, to a whole number: doubles hold the product of two floats exactly. Floats would need an FMA,
// which is made of a * b + c only where the compiler optimises.
SAM3_INLINE IntVec nearest_of_product(Vec v, float factor) {
    typedef double Wide __attribute__((vector_size(8 * kLanes)));
    constexpr double kWideRounder = 6755399441055744.0;  // 1.5 * 2^52
    const Wide product = __builtin_convertvector(v, Wide) * static_cast<double>(factor);
    return __builtin_convertvector(product + kWideRounder - kWideRounder, IntVec);
}

SAM3_INLINE IntVec within(IntVec v, int32_t least, int32_t most) {
    const IntVec low = least - IntVec{}, high = most - IntVec{};
    return v < low ? low : (v > high ? high : v);
}

template <typename Code>
SAM3_INLINE void store_codes(Code* to, IntVec codes) {
    typedef Code Narrow __attribute__((vector_size(kLanes * sizeof(Code))));
    const Narrow narrow = __builtin_convertvector(codes, Narrow);
    __builtin_memcpy(to, &narrow, sizeof narrow);
}

}  // namespace

void int8_layout(Int8Layout* layout) {
    layout->group = kGroup;
    layout->row_code = sizeof(RowCode);
}

// The range always holds 0, which has a code of its own: padding and ReLU's zeros stay exact.
void int8_code_row(uint8_t* codes, Int8Row* code, const float* x, int64_t depth) {
    Vec low = {}, high = {};
    int64_t k = 0;
    for (; k + kLanes <= depth; k += kLanes) {
        low = min(load(x + k), low);
        high = max(load(x + k), high);
    }
    const Vec rest = load_first(x + k, depth - k);
    const float least = -horizontal_max(-min(rest, low));
    const float largest = horizontal_max(max(rest, high));
    const float range = largest - least;
    const float scale = range / 255.0F;
    const float factor = range > 0.0F ? 255.0F / range : 0.0F;
    const auto zero = static_cast<int32_t>(-least * factor + 0.5F);
    code->scale = scale;
    code->zero = zero;
    const float offset = kRounder + static_cast<float>(zero);
    const auto coded = [&](Vec v) { return within(bits(v * factor + offset) - kRounderBits, 0, 255); };
    auto* to = reinterpret_cast<RowCode*>(codes);
    for (k = 0; k + kLanes <= depth; k += kLanes) store_codes(to + k, coded(load(x + k)));
    const IntVec last = coded(rest);
    const int64_t padded = groups_of(depth) * kGroup;
    for (int64_t i = k; i < padded; ++i) to[i] = i < depth ? static_cast<RowCode>(last[i - k]) : RowCode{0};
}

// The same codes on every CPU, as weights/int8_codes.cpp writes them into files.
void int8_code_weights(int8_t* codes, float* scale, const float* weights, int64_t depth) {
    constexpr float kSmallest = 1e-30F;  // below it a row counts as zeros: 127 / range would leave the floats
    Vec largest = {};
    int64_t k = 0;
    for (; k + kLanes <= depth; k += kLanes) largest = max(abs(load(weights + k)), largest);
    const Vec rest = load_first(weights + k, depth - k);
    const float range = horizontal_max(max(abs(rest), largest));
    const float factor = range > kSmallest ? 127.0F / range : 0.0F;
    *scale = range > kSmallest ? range / 127.0F : 0.0F;
    const auto coded = [&](Vec v) { return within(nearest_of_product(v, factor), -127, 127); };
    for (k = 0; k + kLanes <= depth; k += kLanes) store_codes(codes + k, coded(load(weights + k)));
    const IntVec last = coded(rest);
    for (int64_t i = k; i < depth; ++i) codes[i] = static_cast<int8_t>(last[i - k]);
}

// The product with a row of ones.
void int8_sum(int32_t* sum, const int8_t* codes, int64_t depth) {
    constexpr int64_t kStep = Int8Coding::kWeightBytes;
    const IntVec ones = (kGroup == 4 ? 0x01010101 : 0x00010001) - IntVec{};
    IntVec total = {};
    int64_t k = 0;
    for (; k + kStep <= depth; k += kStep) total = add_products(total, ones, load_weights(codes + k));
    int32_t rest = 0;
    for (; k < depth; ++k) rest += codes[k];
    for (int i = 0; i < kLanes; ++i) rest += total[i];
    *sum = rest;
}

void int8_pack(int8_t* panel, const int8_t* codes, int64_t stride, int64_t columns, int64_t depth) {
    constexpr int64_t kRow = kTileColumns * kGroup;  // of the panel, in bytes
    const int64_t whole = depth / kGroup;
    for (int64_t c = 0; c < kTileColumns; ++c) {
        int8_t* to = panel + c * kGroup;
        const int8_t* from = codes + c * stride;
        if (c >= columns) {
            for (int64_t g = 0; g < groups_of(depth); ++g) __builtin_memset(to + g * kRow, 0, kGroup);
            continue;
        }
        for (int64_t g = 0; g < whole; ++g) __builtin_memcpy(to + g * kRow, from + g * kGroup, kGroup);
        for (int64_t k = whole * kGroup; k < groups_of(depth) * kGroup; ++k)
            to[whole * kRow + k - whole * kGroup] = k < depth ? from[k] : int8_t{0};
    }
}

void int8_panel(const Int8Panel& panel) {
    const Columns columns(*panel.output, panel.column, panel.columns);
    const Dequantizer dequantizer(panel, columns);
    const auto* b = reinterpret_cast<const uint8_t*>(panel.b);
    for_each_tile(*panel.output, columns, panel.rows, [&](int64_t row, float* tile) {
        IntVec sum[kTileRows][kTileVectors];
        multiply_codes<Int8Coding>(panel.a + row * panel.a_stride, panel.a_stride, b, groups_of(panel.depth), sum);
        SAM3_UNROLL(kTileRows, i, const Int8Row code = panel.row_codes[row + i];
                    SAM3_UNROLL(kTileVectors, j, const IntVec exact = sum[i][j] - code.zero * dequantizer.sum[j];
                                store(tile + i * kTileColumns + j * kLanes,
                                      __builtin_convertvector(exact, Vec) * (dequantizer.scale[j] * code.scale))));
    });
}

}  // namespace sam3::simd::SAM3_SIMD_VARIANT
