#include "image/resample_rows.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#define SAM3_AVX2 __attribute__((target("avx2")))
#endif
#define SAM3_INLINE [[gnu::always_inline]] inline

namespace sam3 {
namespace {

SAM3_INLINE uint8_t to_sample(int32_t sum, int precision) {
    return static_cast<uint8_t>(std::clamp(sum >> precision, 0, 255));
}

template <int kChannels, typename Weight>
SAM3_INLINE void resample_pixel(const uint8_t* row, const Taps<Weight>& taps, int x, uint8_t* out) {
    const uint8_t* in = row + static_cast<size_t>(taps.first[static_cast<size_t>(x)]) * kChannels;
    const Weight* weights = taps.of(x);
    const int count = taps.count[static_cast<size_t>(x)];
    int32_t sums[kChannels];
    std::fill_n(sums, kChannels, 1 << (taps.precision - 1));
    for (int j = 0; j < count; ++j)
        for (int c = 0; c < kChannels; ++c) sums[c] += weights[j] * in[j * kChannels + c];
    for (int c = 0; c < kChannels; ++c) out[c] = to_sample(sums[c], taps.precision);
}

template <int kChannels, typename Weight>
void resample_rows_plain(const Image& image, const Taps<Weight>& taps, int first, int last, Image& out) {
    for (int y = first; y < last; ++y)
        for (int x = 0; x < out.width; ++x) resample_pixel<kChannels>(image.row(y), taps, x, out.at(x, y));
}

template <typename Weight>
void resample_rows_plain(const Image& image, const Taps<Weight>& taps, int first, int last, Image& out) {
    switch (image.channels) {
        case 1: return resample_rows_plain<1>(image, taps, first, last, out);
        case 3: return resample_rows_plain<3>(image, taps, first, last, out);
        default: return resample_rows_plain<4>(image, taps, first, last, out);
    }
}

template <typename Weight>
SAM3_INLINE void resample_down_plain(const Image& image, const Taps<Weight>& taps, int y, Image& out) {
    constexpr size_t kBlock = 64;
    const size_t bytes = out.row_bytes();
    const uint8_t* top = image.row(taps.first[static_cast<size_t>(y)]);
    const int count = taps.count[static_cast<size_t>(y)];
    const Weight* weights = taps.of(y);
    uint8_t* to = out.row(y);
    size_t begin = 0;
    for (; begin + kBlock <= bytes; begin += kBlock) {
        int32_t sums[kBlock];
        std::fill_n(sums, kBlock, 1 << (taps.precision - 1));
        for (int j = 0; j < count; ++j) {
            const int32_t weight = weights[j];
            const uint8_t* from = top + static_cast<size_t>(j) * bytes + begin;
            for (size_t i = 0; i < kBlock; ++i) sums[i] += weight * from[i];
        }
        for (size_t i = 0; i < kBlock; ++i) to[begin + i] = to_sample(sums[i], taps.precision);
    }
    for (; begin < bytes; ++begin) {
        int32_t sum = 1 << (taps.precision - 1);
        for (int j = 0; j < count; ++j) sum += weights[j] * top[static_cast<size_t>(j) * bytes + begin];
        to[begin] = to_sample(sum, taps.precision);
    }
}

#if defined(SAM3_AVX2)

bool has_avx2() {
    static const bool has = __builtin_cpu_supports("avx2") != 0;
    return has;
}

// Picks two neighbouring pixels, from pixel `first` on, as pairs of 16-bit samples: r0 r1 g0 g1 b0 b1 a0 a1.
template <int kChannels>
SAM3_AVX2 inline __m256i pair_shuffle(int first) {
    alignas(16) int8_t order[16];
    for (int c = 0; c < 4; ++c)
        for (int p = 0; p < 2; ++p) {
            order[c * 4 + p * 2] = static_cast<int8_t>(c < kChannels ? (first + p) * kChannels + c : -1);
            order[c * 4 + p * 2 + 1] = -1;
        }
    return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(order)));
}

SAM3_AVX2 inline __m256i load_two(const uint8_t* a, const uint8_t* b) {
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a));
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

SAM3_AVX2 inline __m256i broadcast_pair(const int16_t* weights) {
    int32_t pair = 0;
    std::memcpy(&pair, weights, sizeof(pair));
    return _mm256_set1_epi32(pair);
}

template <int kChannels>
SAM3_AVX2 inline void store_two(__m256i sums, __m128i shift, uint8_t* a, uint8_t* b) {
    const __m256i shifted = _mm256_sra_epi32(sums, shift);
    const __m256i words = _mm256_packs_epi32(shifted, shifted);
    const __m256i bytes = _mm256_packus_epi16(words, words);
    const int low = _mm_cvtsi128_si32(_mm256_castsi256_si128(bytes));
    const int high = _mm_cvtsi128_si32(_mm256_extracti128_si256(bytes, 1));
    std::memcpy(a, &low, kChannels);
    std::memcpy(b, &high, kChannels);
}

// Four rows at once, two in each register. `safe` is the number of bytes that may be read from any of the rows on.
template <int kChannels>
SAM3_AVX2 void resample_four_rows(const uint8_t* const in[4], size_t safe, const Taps<int16_t>& taps, int width,
                                  uint8_t* const out[4]) {
    const __m256i first_pair = pair_shuffle<kChannels>(0);
    const __m256i second_pair = pair_shuffle<kChannels>(2);
    const __m256i half = _mm256_set1_epi32(1 << (taps.precision - 1));
    const __m128i shift = _mm_cvtsi32_si128(taps.precision);
    for (int x = 0; x < width; ++x) {
        const size_t from = static_cast<size_t>(taps.first[static_cast<size_t>(x)]) * kChannels;
        const size_t to = static_cast<size_t>(x) * kChannels;
        const int count = taps.count[static_cast<size_t>(x)];
        const int16_t* weights = taps.of(x);
        if (from + static_cast<size_t>((count + 3) / 4 * 4) * kChannels + 4 > safe) {
            for (int r = 0; r < 4; ++r) resample_pixel<kChannels>(in[r], taps, x, out[r] + to);
            continue;
        }
        __m256i upper = half;
        __m256i lower = half;
        for (int j = 0; j < count; j += 4) {
            const size_t at = from + static_cast<size_t>(j) * kChannels;
            const __m256i w0 = broadcast_pair(weights + j);
            const __m256i w1 = broadcast_pair(weights + j + 2);
            const __m256i a = load_two(in[0] + at, in[1] + at);
            const __m256i b = load_two(in[2] + at, in[3] + at);
            upper = _mm256_add_epi32(upper, _mm256_madd_epi16(_mm256_shuffle_epi8(a, first_pair), w0));
            lower = _mm256_add_epi32(lower, _mm256_madd_epi16(_mm256_shuffle_epi8(b, first_pair), w0));
            upper = _mm256_add_epi32(upper, _mm256_madd_epi16(_mm256_shuffle_epi8(a, second_pair), w1));
            lower = _mm256_add_epi32(lower, _mm256_madd_epi16(_mm256_shuffle_epi8(b, second_pair), w1));
        }
        store_two<kChannels>(upper, shift, out[0] + to, out[1] + to);
        store_two<kChannels>(lower, shift, out[2] + to, out[3] + to);
    }
}

void resample_four_rows(const Image& image, const Taps<int16_t>& taps, int first, int last, Image& out) {
    const uint8_t* in[4];
    uint8_t* to[4];
    for (int r = 0; r < 4; ++r) {  // past the end of the image the last row is simply made again
        const int y = std::min(first + r, last - 1);
        in[r] = image.row(y);
        to[r] = out.row(y);
    }
    const size_t safe = static_cast<size_t>(image.height - (last - 1)) * image.row_bytes();
    if (image.channels == 3)
        resample_four_rows<3>(in, safe, taps, out.width, to);
    else
        resample_four_rows<4>(in, safe, taps, out.width, to);
}

template <typename Weight>
SAM3_AVX2 void resample_down_avx2(const Image& image, const Taps<Weight>& taps, int y, Image& out) {
    resample_down_plain(image, taps, y, out);
}

#endif

template <typename Weight>
void dispatch_down(const Image& image, const Taps<Weight>& taps, int y, Image& out) {
#if defined(SAM3_AVX2)
    if (has_avx2()) return resample_down_avx2(image, taps, y, out);
#endif
    resample_down_plain(image, taps, y, out);
}

}  // namespace

void resample_row_group(const Image& image, const Taps<int16_t>& taps, int y, Image& out) {
    const int last = std::min(y + kRowGroup, image.height);
#if defined(SAM3_AVX2)
    if (image.channels != 1 && has_avx2()) return resample_four_rows(image, taps, y, last, out);
#endif
    resample_rows_plain(image, taps, y, last, out);
}

void resample_row_group(const Image& image, const Taps<int32_t>& taps, int y, Image& out) {
    resample_rows_plain(image, taps, y, std::min(y + kRowGroup, image.height), out);
}

void resample_down(const Image& image, const Taps<int16_t>& taps, int y, Image& out) {
    dispatch_down(image, taps, y, out);
}

void resample_down(const Image& image, const Taps<int32_t>& taps, int y, Image& out) {
    dispatch_down(image, taps, y, out);
}

}  // namespace sam3
