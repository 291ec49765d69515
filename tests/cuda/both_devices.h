#pragma once

#include "runtime/gpu.h"
#include "support/tensors.h"
#include "util/error.h"

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

// Runs operators on the CPU and on a GPU with the same random inputs and compares the results. The CPU's are the
// definition; tests/runtime compares those with plain versions.
namespace sam3::test {

// Differences are measured against the largest magnitude of the expected tensor. Sums are made in another order, and
// CUDA's functions differ from ours in the last places: some 1e-6 in f32. A bf16 result is rounded to 8 bits, which
// costs up to 2^-9 of it; the bias and products inside (attention's weights, what an activation or a residual follows)
// may be rounded too, and they are up to 1 where the result is small.
constexpr double kExact = 0;
constexpr double kF32Tolerance = 2e-5;
constexpr double kBf16Tolerance = 2.0 / 256;

inline double tolerance_of(DType type) { return type == DType::f32 ? kF32Tolerance : kBf16Tolerance; }

// Null, and why, when there is no GPU.
struct GpuOfTests {
    std::shared_ptr<Device> device;
    std::string reason;

    GpuOfTests() {
        setenv("SAM3_CUDA_PLUGIN", SAM3_TEST_CUDA_PLUGIN, /*overwrite=*/0);
        try {
            device = make_cuda_device(0);
        } catch (const Error& error) {
            reason = error.what();
        }
    }
};
inline const GpuOfTests& gpu() {
    static const GpuOfTests found;
    return found;
}

enum class Layout {
    dense,
    gaps,      // every dimension is a slice, and nothing is aligned
    part,      // the middle third of rows that are three times as long, as q, k and v are
    repeated,  // the first dimension is one, expanded
};

struct Input {
    Shape shape;
    DType type = DType::f32;  // i32 and u8 hold whole numbers
    Layout layout = Layout::dense;
    float low = -1.0F, high = 1.0F;
};

// What an operator under test sees of one device. The CPU computes in f32 whatever the GPU has: its inputs hold the
// values that are left after rounding.
struct Side {
    Ops& ops;
    std::vector<Tensor> in;
    bool is_gpu;

    const Tensor& operator[](size_t i) const { return in[i]; }
    DType type(DType of_gpu) const { return is_gpu ? of_gpu : DType::f32; }
    Precision precision(Precision of_gpu) const { return is_gpu ? of_gpu : Precision::f32; }
};

inline Tensor whole_of(const Input& input, unsigned seed) {
    Shape shape = input.shape;
    for (int i = 0; i < shape.rank(); ++i) shape[i] += input.layout == Layout::gaps ? 3 : 0;
    if (input.layout == Layout::part) shape[-1] *= 3;
    if (input.layout == Layout::repeated) shape[0] = 1;
    return random_tensor(shape, seed, input.low, input.high);
}

inline Tensor view_of(Tensor whole, const Input& input) {
    const int64_t channels = input.shape[-1];
    if (input.layout == Layout::part) return whole.slice(-1, channels, channels);
    if (input.layout == Layout::repeated) return whole.expand(0, input.shape[0]);
    if (input.layout == Layout::gaps)
        for (int i = 0; i < whole.rank(); ++i) whole = whole.slice(i, 1, input.shape[i]);
    return whole;
}

inline bool is_float(DType type) { return type == DType::f32 || type == DType::f16 || type == DType::bf16; }

// What is left of f32 values after rounding.
inline Tensor rounded(const Tensor& x, DType type) {
    Ops ops(cpu(), 1);
    return ops.cast(ops.cast(x, type), DType::f32);
}

// Elements may be NaN or infinite on both sides.
inline void expect_near(const Tensor& actual, const Tensor& expected, double tolerance) {
    ASSERT_EQ(to_string(actual.shape()), to_string(expected.shape()));
    double largest = 0;
    for (int64_t i = 0; i < expected.numel(); ++i)
        if (const double e = std::abs(static_cast<double>(at(expected, i))); std::isfinite(e))
            largest = std::max(largest, e);
    const double limit = tolerance * std::max(largest, tolerance < kBf16Tolerance ? 1e-6 : 1.0);
    int64_t wrong = 0;
    for (int64_t i = 0; i < expected.numel(); ++i) {
        const double a = static_cast<double>(at(actual, i));
        const double e = static_cast<double>(at(expected, i));
        if (a == e || (std::isnan(a) && std::isnan(e)) || std::abs(a - e) <= limit) continue;
        if (++wrong <= 3)
            ADD_FAILURE() << "element " << i << " of " << to_string(expected.shape()) << " is " << a << ", expected "
                          << e << ", allowed difference " << limit;
    }
    EXPECT_EQ(wrong, 0) << "of " << expected.numel() << " elements";
}

inline std::string words(const std::vector<Input>& inputs) {
    std::string text = "inputs";
    for (const Input& input : inputs)
        text += " " + to_string(input.shape) + " " + name_of(input.type) + " layout " +
                std::to_string(static_cast<int>(input.layout));
    return text;
}

// `body(side)` runs the operator and returns its result.
template <typename Body>
void compare(const std::vector<Input>& inputs, double tolerance, const Body& body) {
    SCOPED_TRACE(words(inputs));
    Ops host(cpu(), static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
    Ops device(*gpu().device, 1);
    Side on_cpu{host, {}, false};
    Side on_gpu{device, {}, true};
    unsigned seed = 7;
    for (const Input& input : inputs) {
        const Tensor typed = host.cast(whole_of(input, seed++), input.type);
        on_cpu.in.push_back(view_of(is_float(input.type) ? host.cast(typed, DType::f32) : typed, input));
        on_gpu.in.push_back(view_of(device.upload(typed), input));
    }
    const Tensor expected = host.cast(body(on_cpu), DType::f32);
    const Tensor actual = host.cast(device.download_raw(body(on_gpu)), DType::f32);
    expect_near(actual, expected, tolerance);
}

// Tests of a GPU are skipped where there is none.
class OnGpu : public ::testing::Test {
protected:
    void SetUp() override {
        if (!gpu().device) GTEST_SKIP() << "no GPU to compare with: " << gpu().reason;
    }
};

constexpr DType kFloatTypes[] = {DType::f32, DType::bf16};

}  // namespace sam3::test
