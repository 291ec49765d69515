#pragma once

#include "runtime/ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

// Random tensors on the CPU device and comparison by range, for operator and parity tests.
namespace sam3::test {

inline Device& cpu() {
    static const std::shared_ptr<Device> device = make_cpu_device();
    return *device;
}

inline Tensor random_tensor(const Shape& shape, unsigned seed, float low = -1.0F, float high = 1.0F) {
    Tensor tensor = Ops(cpu(), 1).empty(shape);
    std::mt19937 generator(seed);
    std::uniform_real_distribution<float> uniform(low, high);
    std::generate_n(tensor.data<float>(), tensor.numel(), [&] { return uniform(generator); });
    return tensor;
}

// A view of a larger tensor in which every dimension but the last has a gap: what strided inputs look like.
inline Tensor random_strided(const Shape& shape, unsigned seed, float low = -1.0F, float high = 1.0F) {
    Shape larger = shape;
    for (int i = 0; i < larger.rank(); ++i) larger[i] += 3;
    Tensor view = random_tensor(larger, seed, low, high);
    for (int i = 0; i < shape.rank(); ++i) view = view.slice(i, 1, shape[i]);
    return view;
}

// Element access that honours strides; `flat` is the row-major index.
inline float at(const Tensor& tensor, int64_t flat) {
    int64_t offset = 0;
    for (int i = tensor.rank() - 1; i >= 0; --i) {
        offset += (flat % tensor.dim(i)) * tensor.stride(i);
        flat /= tensor.dim(i);
    }
    return tensor.data<float>()[offset];
}

// Largest difference relative to the expected tensor's range (max - min, at least `floor`).
inline double relative_error(const Tensor& actual, const Tensor& expected, double floor = 1e-6) {
    double low = 0;
    double high = 0;
    double worst = 0;
    for (int64_t i = 0; i < expected.numel(); ++i) {
        const double e = static_cast<double>(at(expected, i));
        const double difference = std::abs(static_cast<double>(at(actual, i)) - e);
        if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
        low = i == 0 ? e : std::min(low, e);
        high = i == 0 ? e : std::max(high, e);
        worst = std::max(worst, difference);
    }
    return worst / std::max({high - low, floor});
}

inline void expect_close(const Tensor& actual, const Tensor& expected, double tolerance = 1e-5) {
    ASSERT_EQ(to_string(actual.shape()), to_string(expected.shape()));
    EXPECT_LE(relative_error(actual, expected), tolerance) << "shape " << to_string(expected.shape());
}

inline void expect_equal(const Tensor& actual, const Tensor& expected) {
    ASSERT_EQ(to_string(actual.shape()), to_string(expected.shape()));
    for (int64_t i = 0; i < expected.numel(); ++i)
        ASSERT_EQ(at(actual, i), at(expected, i)) << "element " << i << " of " << to_string(expected.shape());
}

}  // namespace sam3::test
