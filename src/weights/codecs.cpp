#include "weights/codecs.h"

#include "util/error.h"
#include "weights/quantizers.h"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__)
#define SAM3_HAS_F16C_PATH 1
#include <immintrin.h>
#endif

namespace sam3 {

namespace {

template <typename T>
T load(const uint8_t* source) {
    T value;
    std::memcpy(&value, source, sizeof(T));
    return value;
}

template <typename T>
void store(uint8_t* destination, T value) {
    std::memcpy(destination, &value, sizeof(T));
}

}  // namespace

float f16_to_f32(uint16_t half) {
    const uint32_t sign = (half & 0x8000U) << 16;
    const uint32_t exponent = (half >> 10) & 31U;
    const uint32_t mantissa = half & 0x3ffU;
    if (exponent == 31) {
        const uint32_t quiet = mantissa != 0 ? 0x400000U : 0U;
        return std::bit_cast<float>(sign | 0x7f800000U | quiet | (mantissa << 13));
    }
    if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24
        const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
        return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
    }
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

float bf16_to_f32(uint16_t brain) { return std::bit_cast<float>(static_cast<uint32_t>(brain) << 16); }

uint16_t f32_to_f16(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (bits >> 16) & 0x8000U;
    const uint32_t magnitude = bits & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return static_cast<uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x3ffU));
    if (magnitude >= 0x477ff000U) return static_cast<uint16_t>(sign | 0x7c00U);  // rounds to 65536 or more
    if (magnitude < 0x38800000U) {
        // Subnormal: adding 0.5 leaves the value in units of 2^-24 in the low bits, rounded by the adder.
        const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
        return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000U));
    }
    const uint32_t odd = (magnitude >> 13) & 1U;
    return static_cast<uint16_t>(sign | ((magnitude - 0x38000000U + 0xfffU + odd) >> 13));
}

uint16_t f32_to_bf16(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
    return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

namespace {

#ifdef SAM3_HAS_F16C_PATH

bool has_f16c() {
    static const bool available = __builtin_cpu_supports("avx2") != 0;  // clang cannot ask for f16c; it came before
    return available;
}

// Return how many values were converted, a multiple of 8.
__attribute__((target("avx,f16c"))) int64_t f16_to_f32_wide(const uint8_t* source, int64_t count, float* destination) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i_u*>(source + i * 2));
        _mm256_storeu_ps(destination + i, _mm256_cvtph_ps(halves));
    }
    return i;
}

__attribute__((target("avx,f16c"))) int64_t f32_to_f16_wide(const float* source, int64_t count, uint8_t* destination) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128(reinterpret_cast<__m128i_u*>(destination + i * 2), halves);
    }
    return i;
}

#else

bool has_f16c() { return false; }
int64_t f16_to_f32_wide(const uint8_t*, int64_t, float*) { return 0; }
int64_t f32_to_f16_wide(const float*, int64_t, uint8_t*) { return 0; }

#endif

void decode_f16(const uint8_t* source, int64_t count, float* destination) {
    int64_t i = has_f16c() ? f16_to_f32_wide(source, count, destination) : 0;
    for (; i < count; ++i) destination[i] = f16_to_f32(load<uint16_t>(source + i * 2));
}

void decode_bf16(const uint8_t* source, int64_t count, float* destination) {
    for (int64_t i = 0; i < count; ++i) destination[i] = bf16_to_f32(load<uint16_t>(source + i * 2));
}

template <typename T>
void decode_plain(const uint8_t* source, int64_t count, float* destination) {
    for (int64_t i = 0; i < count; ++i)
        destination[i] = static_cast<float>(load<T>(source + i * static_cast<int64_t>(sizeof(T))));
}

void decode_bool(const uint8_t* source, int64_t count, float* destination) {
    for (int64_t i = 0; i < count; ++i) destination[i] = source[i] != 0 ? 1.0F : 0.0F;
}

// The block layouts below are ggml's (ggml-common.h). In the 32-value blocks byte j holds value j in its low half
// and value j + 16 in its high half.

void decode_q4_0_block(const uint8_t* block, float* y) {
    const float scale = f16_to_f32(load<uint16_t>(block));
    for (int j = 0; j < 16; ++j) {
        const int packed = block[2 + j];
        y[j] = static_cast<float>((packed & 15) - 8) * scale;
        y[j + 16] = static_cast<float>((packed >> 4) - 8) * scale;
    }
}

void decode_q4_1_block(const uint8_t* block, float* y) {
    const float scale = f16_to_f32(load<uint16_t>(block));
    const float minimum = f16_to_f32(load<uint16_t>(block + 2));
    for (int j = 0; j < 16; ++j) {
        const int packed = block[4 + j];
        y[j] = static_cast<float>(packed & 15) * scale + minimum;
        y[j + 16] = static_cast<float>(packed >> 4) * scale + minimum;
    }
}

// The fifth bits of all 32 values form one 32-bit word.
void decode_q5_0_block(const uint8_t* block, float* y) {
    const float scale = f16_to_f32(load<uint16_t>(block));
    const uint32_t high = load<uint32_t>(block + 2);
    for (int j = 0; j < 16; ++j) {
        const int packed = block[6 + j];
        const int first = (packed & 15) | static_cast<int>(((high >> j) & 1U) << 4);
        const int second = (packed >> 4) | static_cast<int>(((high >> (j + 16)) & 1U) << 4);
        y[j] = static_cast<float>(first - 16) * scale;
        y[j + 16] = static_cast<float>(second - 16) * scale;
    }
}

void decode_q5_1_block(const uint8_t* block, float* y) {
    const float scale = f16_to_f32(load<uint16_t>(block));
    const float minimum = f16_to_f32(load<uint16_t>(block + 2));
    const uint32_t high = load<uint32_t>(block + 4);
    for (int j = 0; j < 16; ++j) {
        const int packed = block[8 + j];
        const int first = (packed & 15) | static_cast<int>(((high >> j) & 1U) << 4);
        const int second = (packed >> 4) | static_cast<int>(((high >> (j + 16)) & 1U) << 4);
        y[j] = static_cast<float>(first) * scale + minimum;
        y[j + 16] = static_cast<float>(second) * scale + minimum;
    }
}

void decode_q8_0_block(const uint8_t* block, float* y) {
    const float scale = f16_to_f32(load<uint16_t>(block));
    for (int j = 0; j < 32; ++j) y[j] = static_cast<float>(static_cast<int8_t>(block[2 + j])) * scale;
}

struct ScaleAndMinimum {
    int scale, minimum;
};

// Eight 6-bit scales and eight 6-bit minima in 12 bytes: bytes 0-3 hold scales 0-3 and bytes 4-7 minima 0-3 in their
// low six bits; bytes 8-11 hold the low four bits of scales and minima 4-7, whose high bits fill up bytes 0-7.
ScaleAndMinimum unpack_scale(const uint8_t* packed, int j) {
    if (j < 4) return {packed[j] & 63, packed[j + 4] & 63};
    return {(packed[j + 4] & 15) | ((packed[j - 4] >> 6) << 4), (packed[j + 4] >> 4) | ((packed[j] >> 6) << 4)};
}

void decode_q4_k_block(const uint8_t* block, float* y) {
    const float scale = f16_to_f32(load<uint16_t>(block));
    const float minimum = f16_to_f32(load<uint16_t>(block + 2));
    const uint8_t* packed = block + 16;
    for (int group = 0; group < 8; group += 2, packed += 32, y += 64) {
        const ScaleAndMinimum low = unpack_scale(block + 4, group), high = unpack_scale(block + 4, group + 1);
        const float low_scale = scale * static_cast<float>(low.scale);
        const float low_minimum = minimum * static_cast<float>(low.minimum);
        const float high_scale = scale * static_cast<float>(high.scale);
        const float high_minimum = minimum * static_cast<float>(high.minimum);
        for (int j = 0; j < 32; ++j) {
            y[j] = low_scale * static_cast<float>(packed[j] & 15) - low_minimum;
            y[j + 32] = high_scale * static_cast<float>(packed[j] >> 4) - high_minimum;
        }
    }
}

// As q4_k, with the fifth bit of value j of group g in bit g of high[j].
void decode_q5_k_block(const uint8_t* block, float* y) {
    const float scale = f16_to_f32(load<uint16_t>(block));
    const float minimum = f16_to_f32(load<uint16_t>(block + 2));
    const uint8_t* fifth = block + 16;
    const uint8_t* packed = block + 48;
    for (int group = 0; group < 8; group += 2, packed += 32, y += 64) {
        const ScaleAndMinimum low = unpack_scale(block + 4, group), high = unpack_scale(block + 4, group + 1);
        const float low_scale = scale * static_cast<float>(low.scale);
        const float low_minimum = minimum * static_cast<float>(low.minimum);
        const float high_scale = scale * static_cast<float>(high.scale);
        const float high_minimum = minimum * static_cast<float>(high.minimum);
        for (int j = 0; j < 32; ++j) {
            const int first = (packed[j] & 15) + (((fifth[j] >> group) & 1) << 4);
            const int second = (packed[j] >> 4) + (((fifth[j] >> (group + 1)) & 1) << 4);
            y[j] = low_scale * static_cast<float>(first) - low_minimum;
            y[j + 32] = high_scale * static_cast<float>(second) - high_minimum;
        }
    }
}

// Two halves of 128 values, each four runs of 32: low four bits in `low`, high two bits in `high`, a signed scale for
// every 16 values.
void decode_q6_k_block(const uint8_t* block, float* y) {
    const uint8_t* low = block;
    const uint8_t* high = block + 128;
    const uint8_t* scales = block + 192;
    const float scale = f16_to_f32(load<uint16_t>(block + 208));
    for (int half = 0; half < 2; ++half, low += 64, high += 32, scales += 8, y += 128) {
        for (int run = 0; run < 4; ++run) {
            const uint8_t* nibbles = low + (run % 2) * 32;
            for (int j = 0; j < 32; ++j) {
                const int bits = (run < 2 ? nibbles[j] & 15 : nibbles[j] >> 4) | (((high[j] >> (2 * run)) & 3) << 4);
                const float own = scale * static_cast<float>(static_cast<int8_t>(scales[run * 2 + j / 16]));
                y[run * 32 + j] = own * static_cast<float>(bits - 32);
            }
        }
    }
}

template <void (*DecodeBlock)(const uint8_t*, float*)>
void decode_blocks(WeightType type, const uint8_t* source, int64_t count, float* destination) {
    const int64_t size = block_size(type), bytes = block_bytes(type);
    for (int64_t b = 0; b < count / size; ++b) DecodeBlock(source + b * bytes, destination + b * size);
}

void encode_f16(const float* source, int64_t count, uint8_t* destination) {
    int64_t i = has_f16c() ? f32_to_f16_wide(source, count, destination) : 0;
    for (; i < count; ++i) store(destination + i * 2, f32_to_f16(source[i]));
}

void require_whole_blocks(WeightType type, int64_t count) {
    if (count < 0 || count % block_size(type) != 0)
        fail("expected a multiple of ", block_size(type), " values for ", name_of(type), ", found ", count);
}

void decode_piece(WeightType type, const uint8_t* source, int64_t count, float* destination) {
    switch (type) {
        case WeightType::f32: std::memcpy(destination, source, static_cast<size_t>(count) * 4); return;
        case WeightType::f16: return decode_f16(source, count, destination);
        case WeightType::bf16: return decode_bf16(source, count, destination);
        case WeightType::f64: return decode_plain<double>(source, count, destination);
        case WeightType::i8: return decode_plain<int8_t>(source, count, destination);
        case WeightType::u8: return decode_plain<uint8_t>(source, count, destination);
        case WeightType::i16: return decode_plain<int16_t>(source, count, destination);
        case WeightType::i32: return decode_plain<int32_t>(source, count, destination);
        case WeightType::i64: return decode_plain<int64_t>(source, count, destination);
        case WeightType::bool_: return decode_bool(source, count, destination);
        case WeightType::q4_0: return decode_blocks<decode_q4_0_block>(type, source, count, destination);
        case WeightType::q4_1: return decode_blocks<decode_q4_1_block>(type, source, count, destination);
        case WeightType::q5_0: return decode_blocks<decode_q5_0_block>(type, source, count, destination);
        case WeightType::q5_1: return decode_blocks<decode_q5_1_block>(type, source, count, destination);
        case WeightType::q8_0: return decode_blocks<decode_q8_0_block>(type, source, count, destination);
        case WeightType::q4_k: return decode_blocks<decode_q4_k_block>(type, source, count, destination);
        case WeightType::q5_k: return decode_blocks<decode_q5_k_block>(type, source, count, destination);
        case WeightType::q6_k: return decode_blocks<decode_q6_k_block>(type, source, count, destination);
        case WeightType::unsupported: return;
    }
}

}  // namespace

void decode_to_f32(WeightType type, const uint8_t* source, int64_t count, float* destination) {
    require_whole_blocks(type, count);
    if (type == WeightType::unsupported) fail("this type of weights cannot be read");
    constexpr int64_t kPiece = int64_t{1} << 16;  // values of a thread's turn; a whole number of any blocks
#pragma omp parallel for schedule(static) if (count >= 4 * kPiece)
    for (int64_t at = 0; at < count; at += kPiece)
        decode_piece(type, source + at / block_size(type) * block_bytes(type), std::min(kPiece, count - at),
                     destination + at);
}

bool can_encode(WeightType type) {
    return type == WeightType::f32 || type == WeightType::f16 || type == WeightType::bf16 || is_quantized(type);
}

void encode_from_f32(WeightType type, const float* source, int64_t count, uint8_t* destination) {
    require_whole_blocks(type, count);
    if (count == 0) return;
    switch (type) {
        case WeightType::f32: std::memcpy(destination, source, static_cast<size_t>(count) * 4); return;
        case WeightType::f16: return encode_f16(source, count, destination);
        case WeightType::bf16:
            for (int64_t i = 0; i < count; ++i) store(destination + i * 2, f32_to_bf16(source[i]));
            return;
        default: break;
    }
    if (!is_quantized(type)) fail("weights cannot be written as ", name_of(type));
    for (int64_t b = 0; b < count / block_size(type); ++b)
        quantize_block(type, source + b * block_size(type), destination + b * block_bytes(type));
}

}  // namespace sam3
