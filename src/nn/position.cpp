#include "nn/position.h"

#include "util/error.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

namespace sam3::nn {

Tensor axial_rope_table(int64_t height, int64_t width, int64_t head_size, float theta, float scale) {
    const int64_t quarter = head_size / 4;
    if (quarter * 4 != head_size) fail("axial RoPE needs a head size divisible by 4, got ", head_size);
    std::vector<float> frequencies(static_cast<size_t>(quarter));
    for (int64_t i = 0; i < quarter; ++i)
        frequencies[static_cast<size_t>(i)] =
            1.0F / std::pow(theta, static_cast<float>(4 * i) / static_cast<float>(head_size));

    Tensor table = Tensor::host({height * width, head_size / 2, 2});
    float* out = table.data<float>();
    for (int64_t y = 0; y < height; ++y) {
        for (int64_t x = 0; x < width; ++x) {
            for (const int64_t position : {x, y}) {
                for (const float frequency : frequencies) {
                    const float angle = static_cast<float>(position) * scale * frequency;
                    *out++ = std::cos(angle);
                    *out++ = std::sin(angle);
                }
            }
        }
    }
    return table;
}

namespace {

constexpr float kTwoPi = 2.0F * std::numbers::pi_v<float>;

// temperature^(2 floor(i / 2) / size)
std::vector<float> sine_divisors(int64_t size, float temperature) {
    std::vector<float> divisors;
    for (int64_t i = 0; i < size; ++i)
        divisors.push_back(std::pow(temperature, static_cast<float>(i - i % 2) / static_cast<float>(size)));
    return divisors;
}

void encode_angle(float angle, const std::vector<float>& divisors, float* out) {
    for (size_t i = 0; i < divisors.size(); ++i)
        out[i] = i % 2 == 0 ? std::sin(angle / divisors[i]) : std::cos(angle / divisors[i]);
}

}  // namespace

void sine_encode(float value, int64_t size, float* out, float temperature) {
    encode_angle(value * kTwoPi, sine_divisors(size, temperature), out);
}

Tensor sine_position_table(int64_t height, int64_t width, int64_t channels, float temperature) {
    constexpr float kEps = 1e-6F;
    const int64_t half = channels / 2;
    const std::vector<float> divisors = sine_divisors(half, temperature);
    const auto angle = [](int64_t index, int64_t size) {
        return static_cast<float>(index + 1) / (static_cast<float>(size) + kEps) * kTwoPi;
    };
    Tensor table = Tensor::host({height * width, channels});
    float* out = table.data<float>();
    for (int64_t y = 0; y < height; ++y) {
        for (int64_t x = 0; x < width; ++x, out += channels) {
            encode_angle(angle(y, height), divisors, out);
            encode_angle(angle(x, width), divisors, out + half);
        }
    }
    return table;
}

Tensor tile_positions(const Tensor& embedding, int64_t height, int64_t width) {
    const int64_t channels = embedding.dim(-1);
    const int64_t cells = embedding.numel() / channels;
    const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(cells))));
    if (side * side * channels != embedding.numel())
        fail("the position embedding ", to_string(embedding.shape()), " is not a square grid");
    Tensor out = Tensor::host({height, width, channels});
    for (int64_t y = 0; y < height; ++y)
        for (int64_t x = 0; x < width; ++x)
            std::memcpy(out.data<float>() + (y * width + x) * channels,
                        embedding.data<float>() + ((y % side) * side + x % side) * channels,
                        static_cast<size_t>(channels) * sizeof(float));
    return out;
}

Tensor relative_position_table(const Tensor& by_distance, int64_t size) {
    const int64_t stored = by_distance.dim(0);
    const int64_t channels = by_distance.dim(1);
    const int64_t wanted = 2 * size - 1;
    const float* from = by_distance.data<float>();
    // Linear interpolation between pixel centres; exact when nothing changes.
    const float scale = static_cast<float>(stored) / static_cast<float>(wanted);
    std::vector<float> resized(static_cast<size_t>(wanted * channels));
    for (int64_t i = 0; i < wanted; ++i) {
        const float source = std::max((static_cast<float>(i) + 0.5F) * scale - 0.5F, 0.0F);
        const auto low = std::min(static_cast<int64_t>(source), stored - 1);
        const int64_t high = std::min(low + 1, stored - 1);
        const float weight = source - static_cast<float>(low);
        for (int64_t c = 0; c < channels; ++c)
            resized[static_cast<size_t>(i * channels + c)] =
                (1.0F - weight) * from[low * channels + c] + weight * from[high * channels + c];
    }

    Tensor table = Tensor::host({size, size, channels});
    for (int64_t q = 0; q < size; ++q)
        for (int64_t k = 0; k < size; ++k)
            std::copy_n(resized.data() + (q - k + size - 1) * channels, channels,
                        table.data<float>() + (q * size + k) * channels);
    return table;
}

}  // namespace sam3::nn
