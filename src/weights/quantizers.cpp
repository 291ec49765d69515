#include "weights/quantizers.h"

#include "util/error.h"
#include "weights/codecs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <tuple>
#include <utility>

namespace sam3 {

namespace {

constexpr int kSmall = 32;   // values of a block with one scale
constexpr int kSuper = 256;  // values of a block whose parts have scales of their own

// Subnormal scales are stored as zero anyway.
float inverse(float value) { return std::fabs(value) >= 0x1p-126F ? 1.0F / value : 0.0F; }

// To nearest, ties to even: at 1.5 * 2^23 floats are whole numbers. Anything beyond 2^22 is clamped by the callers.
int nearest(float x) { return static_cast<int>(std::clamp(x, -4194303.0F, 4194303.0F) + 12582912.0F - 12582912.0F); }

// The scale as the file holds it.
float put_half(uint8_t* place, float value) {
    const uint16_t half = f32_to_f16(value);
    if ((half & 0x7fffU) >= 0x7c00U)
        fail("a value is not finite or too large for blocks with 16-bit scales: keep this tensor in f32");
    std::memcpy(place, &half, sizeof half);
    return f16_to_f32(half);
}

// The first value of the largest magnitude, with its sign.
float extreme(const float* x, int count) {
    float best = 0, magnitude = 0;
    for (int i = 0; i < count; ++i) {
        if (!(std::fabs(x[i]) > magnitude)) continue;
        magnitude = std::fabs(x[i]);
        best = x[i];
    }
    return best;
}

// Levels 0 to 2 * half - 1 around a middle of `half`; the extreme value gets level 0 exactly.
template <typename Put>
void symmetric_levels(const float* x, int half, uint8_t* scale, const Put& put) {
    const float d = extreme(x, kSmall) / static_cast<float>(-half);
    const float id = inverse(d);
    put_half(scale, d);
    const float middle = static_cast<float>(half) + 0.5F;
    for (int i = 0; i < kSmall; ++i) put(i, std::min(2 * half - 1, static_cast<int>(x[i] * id + middle)));
}

// Levels 0 to `most` from the smallest to the largest value.
template <typename Put>
void ranged_levels(const float* x, int most, uint8_t* scale, const Put& put) {
    const auto [low, high] = std::minmax_element(x, x + kSmall);
    const float d = (*high - *low) / static_cast<float>(most);
    const float id = inverse(d);
    put_half(scale, d);
    put_half(scale + 2, *low);
    for (int i = 0; i < kSmall; ++i) put(i, std::min(most, static_cast<int>((x[i] - *low) * id + 0.5F)));
}

// Nibbles of a block of 32: value i and value i + 16 share a byte.
auto nibbles_into(uint8_t* bytes) {
    std::memset(bytes, 0, kSmall / 2);
    return [bytes](int i, int level) {
        bytes[i % 16] = static_cast<uint8_t>(bytes[i % 16] | ((level & 15) << (i < 16 ? 0 : 4)));
    };
}

// As above, with the fifth bits in a word in front.
auto five_bits_into(uint8_t* high, uint8_t* bytes) {
    std::memset(high, 0, 4);
    return [high, put = nibbles_into(bytes)](int i, int level) {
        put(i, level);
        high[i / 8] = static_cast<uint8_t>(high[i / 8] | ((level >> 4) << (i % 8)));
    };
}

void quantize_q8_0(const float* x, uint8_t* block) {
    const float d = std::fabs(extreme(x, kSmall)) / 127.0F;
    const float id = inverse(d);
    put_half(block, d);
    for (int i = 0; i < kSmall; ++i) block[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(std::round(x[i] * id)));
}

// ---- blocks of 256 ----

struct Fit {
    float scale = 0;
    float minimum = 0;  // subtracted: x = scale * level - minimum
};

// The fits also leave their levels behind. They are final only where the rounded scale is zero and new ones cannot be
// worked out: such values decode to the same whatever their level, but ggml keeps it.

// The scale and minimum of 32 values that give a small weighted squared error, found by trying scales around the
// obvious one and solving for the best pair at the levels that each gives. As in ggml, a better minimum is where the
// next trials start from.
Fit fit_range(const float* x, const float* weights, int most, float first, int steps, uint8_t* best_levels) {
    float low = x[0], high = x[0];
    float sum_w = weights[0], sum_x = sum_w * x[0];
    for (int i = 1; i < kSmall; ++i) {
        low = std::min(low, x[i]);
        high = std::max(high, x[i]);
        sum_w += weights[i];
        sum_x += weights[i] * x[i];
    }
    low = std::min(low, 0.0F);
    std::fill_n(best_levels, kSmall, uint8_t{0});
    if (high == low) return {0, -low};

    std::array<int, kSmall> levels{};
    const auto choose_levels = [&](float inverse_scale) {
        for (int i = 0; i < kSmall; ++i)
            levels[static_cast<size_t>(i)] = std::clamp(nearest(inverse_scale * (x[i] - low)), 0, most);
    };
    const auto keep_levels = [&] { std::copy(levels.begin(), levels.end(), best_levels); };
    const auto error_of = [&](float scale, float minimum) {
        float error = 0;
        for (int i = 0; i < kSmall; ++i) {
            const float difference = scale * static_cast<float>(levels[static_cast<size_t>(i)]) + minimum - x[i];
            error += weights[i] * (difference * difference);
        }
        return error;
    };

    const float obvious = static_cast<float>(most) / (high - low);
    float scale = 1.0F / obvious;
    choose_levels(obvious);
    keep_levels();
    float best = error_of(scale, low);
    for (int step = 0; step <= steps; ++step) {
        choose_levels((first + 0.1F * static_cast<float>(step) + static_cast<float>(most)) / (high - low));
        float sum_l = 0, sum_l2 = 0, sum_xl = 0;
        for (int i = 0; i < kSmall; ++i) {
            const auto level = static_cast<float>(levels[static_cast<size_t>(i)]);
            sum_l += weights[i] * level;
            sum_l2 += weights[i] * level * level;
            sum_xl += weights[i] * level * x[i];
        }
        const float determinant = sum_w * sum_l2 - sum_l * sum_l;
        if (!(determinant > 0)) continue;
        float new_scale = (sum_w * sum_xl - sum_x * sum_l) / determinant;
        float new_minimum = (sum_l2 * sum_x - sum_l * sum_xl) / determinant;
        if (new_minimum > 0) {
            new_minimum = 0;
            new_scale = sum_xl / sum_l2;
        }
        const float error = error_of(new_scale, new_minimum);
        if (error < best) {
            best = error;
            scale = new_scale;
            low = new_minimum;
            keep_levels();
        }
    }
    return {scale, -low};
}

// Eight pairs of 6-bit numbers in 12 bytes: the first four of each kind have their own bytes, whose upper two bits hold
// the upper bits of the last four, whose lower bits share the last four bytes.
void pack_sixes(const std::array<int, 8>& scales, const std::array<int, 8>& minima, uint8_t* bytes) {
    for (size_t j = 0; j < 4; ++j) {
        bytes[j] = static_cast<uint8_t>(scales[j] | ((scales[j + 4] >> 4) << 6));
        bytes[j + 4] = static_cast<uint8_t>(minima[j] | ((minima[j + 4] >> 4) << 6));
        bytes[j + 8] = static_cast<uint8_t>((scales[j + 4] & 15) | ((minima[j + 4] & 15) << 4));
    }
}

// Levels of q4_k and q5_k, 0 to `most`; writes the scales in front of the block.
std::array<uint8_t, kSuper> ranged_super_levels(const float* x, int most, float first, int steps, uint8_t* block) {
    std::array<Fit, 8> fits;
    std::array<uint8_t, kSuper> levels{};
    float most_scale = 0, most_minimum = 0;
    for (size_t j = 0; j < 8; ++j) {
        const float* part = x + kSmall * static_cast<int>(j);
        float squares = 0;
        for (int i = 0; i < kSmall; ++i) squares += part[i] * part[i];
        const float typical = std::sqrt(squares / static_cast<float>(kSmall));
        std::array<float, kSmall> weights{};
        for (int i = 0; i < kSmall; ++i) weights[static_cast<size_t>(i)] = typical + std::fabs(part[i]);
        fits[j] = fit_range(part, weights.data(), most, first, steps, levels.data() + kSmall * j);
        most_scale = std::max(most_scale, fits[j].scale);
        most_minimum = std::max(most_minimum, fits[j].minimum);
    }
    const float per_scale = most_scale > 0 ? 63.0F / most_scale : 0.0F;
    const float per_minimum = most_minimum > 0 ? 63.0F / most_minimum : 0.0F;
    std::array<int, 8> scales{}, minima{};
    for (size_t j = 0; j < 8; ++j) {
        scales[j] = std::min(63, static_cast<int>(static_cast<uint8_t>(nearest(per_scale * fits[j].scale))));
        minima[j] = std::min(63, static_cast<int>(static_cast<uint8_t>(nearest(per_minimum * fits[j].minimum))));
    }
    const float d = put_half(block, most_scale / 63.0F);
    const float dmin = put_half(block + 2, most_minimum / 63.0F);
    pack_sixes(scales, minima, block + 4);

    for (size_t j = 0; j < 8; ++j) {
        const float scale = d * static_cast<float>(scales[j]);
        const float minimum = dmin * static_cast<float>(minima[j]);
        for (size_t i = kSmall * j; i < kSmall * (j + 1); ++i)
            if (scale != 0) levels[i] = static_cast<uint8_t>(std::clamp(nearest((x[i] + minimum) / scale), 0, most));
    }
    return levels;
}

// Runs of 32 values share bytes in pairs.
void pack_nibbles(const std::array<uint8_t, kSuper>& levels, uint8_t* bytes) {
    for (size_t pair = 0; pair < 4; ++pair)
        for (size_t i = 0; i < kSmall; ++i)
            bytes[kSmall * pair + i] = static_cast<uint8_t>((levels[2 * kSmall * pair + i] & 15) |
                                                            ((levels[2 * kSmall * pair + kSmall + i] & 15) << 4));
}

void quantize_q4_k(const float* x, uint8_t* block) {
    pack_nibbles(ranged_super_levels(x, 15, -1.0F, 20, block), block + 16);
}

void quantize_q5_k(const float* x, uint8_t* block) {
    const std::array<uint8_t, kSuper> levels = ranged_super_levels(x, 31, -0.5F, 15, block);
    uint8_t* high = block + 16;
    std::memset(high, 0, kSmall);
    for (size_t i = 0; i < kSuper; ++i)
        high[i % kSmall] = static_cast<uint8_t>(high[i % kSmall] | ((levels[i] >> 4) << (i / kSmall)));
    pack_nibbles(levels, block + 48);
}

// The scale of 16 values with levels -32 to 31 that gives the least error, weighted by their squares.
float fit_symmetric(const float* x, uint8_t* best_levels) {
    constexpr int kCount = 16, kHalf = 32;
    const float most = extreme(x, kCount);
    std::fill_n(best_levels, kCount, uint8_t{0});
    if (std::fabs(most) < 1e-15F) return 0;
    const auto level_of = [&](float inverse_scale, int i) {
        return std::clamp(nearest(inverse_scale * x[i]), -kHalf, kHalf - 1);
    };
    const auto keep_levels = [&](float inverse_scale) {
        for (int i = 0; i < kCount; ++i) best_levels[i] = static_cast<uint8_t>(level_of(inverse_scale, i) + kHalf);
    };
    const auto sums = [&](float inverse_scale) {
        float sum_xl = 0, sum_l2 = 0;
        for (int i = 0; i < kCount; ++i) {
            const auto level = static_cast<float>(level_of(inverse_scale, i));
            const float weight = x[i] * x[i];
            sum_xl += weight * x[i] * level;
            sum_l2 += weight * level * level;
        }
        return std::pair(sum_xl, sum_l2);
    };
    keep_levels(-static_cast<float>(kHalf) / most);
    auto [sum_xl, sum_l2] = sums(-static_cast<float>(kHalf) / most);
    float scale = sum_l2 != 0 ? sum_xl / sum_l2 : 0.0F;
    float best = scale * sum_xl;
    for (int step = -9; step <= 9; ++step) {
        if (step == 0) continue;
        const float inverse_scale = -(static_cast<float>(kHalf) + 0.1F * static_cast<float>(step)) / most;
        std::tie(sum_xl, sum_l2) = sums(inverse_scale);
        if (!(sum_l2 > 0 && sum_xl * sum_xl > best * sum_l2)) continue;
        scale = sum_xl / sum_l2;
        best = scale * sum_xl;
        keep_levels(inverse_scale);
    }
    return scale;
}

void quantize_q6_k(const float* x, uint8_t* block) {
    std::array<float, 16> fits{};
    std::array<uint8_t, kSuper> levels{};
    for (size_t j = 0; j < 16; ++j) fits[j] = fit_symmetric(x + 16 * j, levels.data() + 16 * j);
    const float most = extreme(fits.data(), 16);
    if (std::fabs(most) < 1e-15F) {
        std::memset(block, 0, 210);
        return;
    }
    const float per_scale = -128.0F / most;
    const float d = put_half(block + 208, 1.0F / per_scale);
    for (size_t j = 0; j < 16; ++j) {
        const int scale = std::min(127, nearest(per_scale * fits[j]));
        block[192 + j] = static_cast<uint8_t>(static_cast<int8_t>(scale));
        const float step = d * static_cast<float>(scale);
        for (size_t i = 16 * j; i < 16 * (j + 1); ++i) {
            if (step != 0) levels[i] = static_cast<uint8_t>(std::clamp(nearest(x[i] / step), -32, 31) + 32);
        }
    }
    // Halves of 128 values; value i of a half has its low bits in byte i % 64, its high ones in byte i % 32.
    std::memset(block, 0, 192);
    for (size_t i = 0; i < kSuper; ++i) {
        const size_t half = i / 128, at = i % 128;
        uint8_t& low = block[64 * half + at % 64];
        uint8_t& high = block[128 + 32 * half + at % 32];
        low = static_cast<uint8_t>(low | ((levels[i] & 15) << (at < 64 ? 0 : 4)));
        high = static_cast<uint8_t>(high | ((levels[i] >> 4) << (2 * (at / 32))));
    }
}

}  // namespace

void quantize_block(WeightType type, const float* x, uint8_t* block) {
    if (!std::all_of(x, x + block_size(type), [](float value) { return std::isfinite(value); }))
        fail("a value is not finite: ", name_of(type), " cannot hold it, keep this tensor in f32");
    switch (type) {
        case WeightType::q4_0: return symmetric_levels(x, 8, block, nibbles_into(block + 2));
        case WeightType::q4_1: return ranged_levels(x, 15, block, nibbles_into(block + 4));
        case WeightType::q5_0: return symmetric_levels(x, 16, block, five_bits_into(block + 2, block + 6));
        case WeightType::q5_1: return ranged_levels(x, 31, block, five_bits_into(block + 4, block + 8));
        case WeightType::q8_0: return quantize_q8_0(x, block);
        case WeightType::q4_k: return quantize_q4_k(x, block);
        case WeightType::q5_k: return quantize_q5_k(x, block);
        case WeightType::q6_k: return quantize_q6_k(x, block);
        default: fail("there is no quantiser for ", name_of(type));
    }
}

}  // namespace sam3
