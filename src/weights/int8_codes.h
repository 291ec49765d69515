#pragma once

#include "runtime/shape.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Weights of large layers as they are multiplied in int8: one code a value and one scale an output channel, value =
// scale * code. In a file they are two tensors, the codes under the layer's own name and their scales beside them.
namespace sam3 {

class WeightFile;

// Where a weight tensor has its output channels: [out, in, ...], or [in, out, ...] with a scale for each position
// behind the first dimension, as a transposed convolution is stored.
enum class OutputChannels { first, rest };

std::string int8_scale_name(std::string_view weight);
Shape int8_scale_shape(const Shape& weight, OutputChannels channels);
// Which of the two the scales of a tensor are for; empty when they fit neither.
std::optional<OutputChannels> int8_channels(const Shape& weight, const Shape& scales);

struct Int8Codes {
    std::vector<int8_t> codes;  // -127 ... 127, in the order of the values
    std::vector<float> scales;
};
// Bit for bit the codes that the CPU's kernels make of f32 weights when a model is loaded in int8. Fails for values
// that are not finite.
Int8Codes encode_int8(const float* values, const Shape& shape, OutputChannels channels);

// values[i] *= the scale of its channel.
void apply_int8_scales(float* values, const Shape& shape, OutputChannels channels, const float* scales);

bool holds_int8_layers(const WeightFile& file);

}  // namespace sam3
