#include "image/resize.h"
#include "support/operator_goldens.h"
#include "util/error.h"

#include <gtest/gtest.h>

#include <random>

namespace sam3 {
namespace {

using namespace sam3::test;

Tensor integers(const std::vector<int>& values, const Shape& shape) {
    return Tensor::wrap_host(values.data(), shape, DType::i32);
}

// The operator with resize()'s own weights is resize().
TEST(Resample, ResizesImagesAsTheCpuDoes) {
    std::mt19937 random(1);
    for (const auto& [width, height, side] :
         {std::array{40, 30, 24}, std::array{17, 61, 32}, std::array{24, 9, 24}, std::array{5, 24, 24}}) {
        Image image(width, height, 3);
        for (uint8_t& value : image.pixels) value = static_cast<uint8_t>(random());
        const ResizeWeights across = resize_weights(width, side);
        const ResizeWeights down = resize_weights(height, side);
        const Tensor pixels = Tensor::wrap_host(image.pixels.data(), {height, width, 3}, DType::u8);
        Ops ops(cpu(), 2);
        const Tensor narrow = width == side
                                  ? pixels
                                  : ops.resample(pixels, integers(across.first, {side}),
                                                 integers(across.weights, {side, across.capacity}), across.precision);
        const Tensor lines = narrow.reshape({1, height, 3 * int64_t{side}});
        const Tensor result = height == side
                                  ? lines
                                  : ops.resample(lines, integers(down.first, {side}),
                                                 integers(down.weights, {side, down.capacity}), down.precision);
        const Image wanted = resize(image, side, side);
        ASSERT_EQ(result.numel(), static_cast<int64_t>(wanted.pixels.size()));
        for (size_t i = 0; i < wanted.pixels.size(); ++i)
            ASSERT_EQ(result.data<uint8_t>()[i], wanted.pixels[i]) << width << " x " << height << ", byte " << i;
    }
}

TEST(Resample, RefusesWeightsThatDoNotFit) {
    Ops ops(cpu(), 1);
    const std::vector<int> three(3, 0);
    const Tensor x = ops.full({1, 4, 2}, 0, DType::u8);
    EXPECT_THROW(ops.resample(x, integers(three, {3}), integers(three, {1, 3}), 4), Error);
    EXPECT_THROW(ops.resample(x, integers(three, {3}), integers(three, {3, 1}), 0), Error);
}

}  // namespace
}  // namespace sam3
