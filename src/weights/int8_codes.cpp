#include "weights/int8_codes.h"

#include "util/error.h"
#include "weights/weight_file.h"

#include <algorithm>
#include <cmath>

namespace sam3 {

namespace {

// Calls use(channel, begin, end) for every run of values that belong to one channel.
template <typename Use>
void for_each_run(const Shape& shape, OutputChannels channels, const Use& use) {
    const int64_t first = shape[0];
    const int64_t behind = first == 0 ? 0 : shape.numel() / first;
    if (channels == OutputChannels::first) {
        for (int64_t c = 0; c < first; ++c) use(static_cast<size_t>(c), c * behind, (c + 1) * behind);
    } else {
        for (int64_t i = 0; i < first * behind; ++i) use(static_cast<size_t>(i % behind), i, i + 1);
    }
}

}  // namespace

// "a.scale" for "a.weight": no longer than the name itself, for which ggml's tools have a limit.
std::string int8_scale_name(std::string_view weight) {
    constexpr std::string_view kEnding = ".weight";
    if (!weight.ends_with(kEnding)) return std::string(weight) + ".scale";
    return std::string(weight.substr(0, weight.size() - kEnding.size())) + ".scale";
}

Shape int8_scale_shape(const Shape& weight, OutputChannels channels) {
    if (channels == OutputChannels::first) return {weight[0]};
    Shape behind;
    for (int i = 1; i < weight.rank(); ++i) behind.push_back(weight[i]);
    return behind;
}

std::optional<OutputChannels> int8_channels(const Shape& weight, const Shape& scales) {
    if (weight.rank() >= 2 && scales == int8_scale_shape(weight, OutputChannels::first)) return OutputChannels::first;
    if (weight.rank() > 2 && scales == int8_scale_shape(weight, OutputChannels::rest)) return OutputChannels::rest;
    return std::nullopt;
}

Int8Codes encode_int8(const float* values, const Shape& shape, OutputChannels channels) {
    constexpr float kSmallest = 1e-30F;  // as in the kernels: a channel below it counts as zeros
    Int8Codes result{std::vector<int8_t>(static_cast<size_t>(shape.numel())),
                     std::vector<float>(static_cast<size_t>(int8_scale_shape(shape, channels).numel()))};
    std::vector<float>& ranges = result.scales;
    for_each_run(shape, channels, [&](size_t channel, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            if (!std::isfinite(values[i])) fail("a value that is not finite has no int8 code: ", values[i]);
            ranges[channel] = std::max(ranges[channel], std::abs(values[i]));
        }
    });
    std::vector<double> factors;
    for (float& range : ranges) {
        factors.push_back(range > kSmallest ? static_cast<double>(127.0F / range) : 0.0);
        range = range > kSmallest ? range / 127.0F : 0.0F;
    }
    // A product of two floats is exact in double; adding 1.5 * 2^52 rounds it to a whole number, once.
    constexpr double kRounder = 6755399441055744.0;
    for_each_run(shape, channels, [&](size_t channel, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const double code = static_cast<double>(values[i]) * factors[channel] + kRounder - kRounder;
            result.codes[static_cast<size_t>(i)] = static_cast<int8_t>(std::clamp(code, -127.0, 127.0));
        }
    });
    return result;
}

void apply_int8_scales(float* values, const Shape& shape, OutputChannels channels, const float* scales) {
    for_each_run(shape, channels, [&](size_t channel, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) values[i] *= scales[channel];
    });
}

bool holds_int8_layers(const WeightFile& file) {
    return std::any_of(file.tensors().begin(), file.tensors().end(), [&](const WeightTensor& tensor) {
        return tensor.type == WeightType::i8 && file.find(int8_scale_name(tensor.name)) != nullptr;
    });
}

}  // namespace sam3
