#pragma once

#include "support/data_path.h"
#include "support/tensors.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

// Reads tests/data/runtime/operators.bin, which tests/goldens/operators.py wrote, and makes its inputs.
namespace sam3::test {

struct OperatorGolden {
    std::vector<float> parameters;
    std::vector<float> results;

    float real(size_t i) const { return parameters.at(i); }
    int integer(size_t i) const { return static_cast<int>(parameters.at(i)); }
};

// All records of one name.
inline std::vector<OperatorGolden> operator_goldens(const std::string& wanted) {
    const std::string path = data_path("runtime/operators.bin");
    std::ifstream file(path, std::ios::binary);
    const auto read = [&](void* to, size_t bytes) {
        return static_cast<bool>(file.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes)));
    };
    const auto read_floats = [&] {
        int32_t count = 0;
        if (!read(&count, sizeof count)) throw std::runtime_error(path + " is cut off");
        std::vector<float> values(static_cast<size_t>(count));
        if (count > 0 && !read(values.data(), values.size() * sizeof(float)))
            throw std::runtime_error(path + " is cut off");
        return values;
    };
    std::vector<OperatorGolden> found;
    char name[17] = {};
    while (read(name, 16)) {
        OperatorGolden golden;
        golden.parameters = read_floats();
        golden.results = read_floats();
        if (name == wanted) found.push_back(golden);
    }
    if (found.empty()) throw std::runtime_error(path + " has no record " + wanted);
    return found;
}

// `numbers` of the script: a hash of the position, in [low, high).
inline Tensor golden_input(const Shape& shape, int seed, float low = -1.0F, float high = 1.0F) {
    Tensor tensor = Ops(cpu(), 1).empty(shape);
    for (int64_t i = 0; i < tensor.numel(); ++i) {
        uint32_t x = static_cast<uint32_t>(i + 1 + static_cast<int64_t>(seed) * 7919) * 2654435761U;
        x = (x ^ (x >> 15U)) * 2246822519U;
        x ^= x >> 13U;
        tensor.data<float>()[i] = static_cast<float>(x >> 8U) * 0x1.0p-24F * (high - low) + low;
    }
    return tensor;
}

// Every n-th element of a result against the stored ones.
inline void expect_golden(const Tensor& actual, const OperatorGolden& golden, double tolerance, int64_t every = 1) {
    const int64_t count = (actual.numel() + every - 1) / every;
    ASSERT_EQ(count, static_cast<int64_t>(golden.results.size()));
    Tensor stored = Tensor::host({count});
    Tensor picked = Tensor::host({count});
    for (int64_t i = 0; i < count; ++i) {
        stored.data<float>()[i] = golden.results[static_cast<size_t>(i)];
        picked.data<float>()[i] = at(actual, i * every);
    }
    if (tolerance == 0)
        expect_equal(picked, stored);
    else
        expect_close(picked, stored, tolerance);
}

// The same result, to the last bit, with 1, 2 and 3 threads; returns it.
template <typename Run>
Tensor run_with_threads(const Run& run) {
    Ops single(cpu(), 1);
    const Tensor expected = run(single);
    for (int threads : {2, 3}) {
        Ops ops(cpu(), threads);
        const Tensor actual = run(ops);
        EXPECT_EQ(to_string(actual.shape()), to_string(expected.shape()));
        const size_t bytes = static_cast<size_t>(expected.numel()) * size_of(expected.dtype());
        EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), bytes), 0) << threads << " threads";
    }
    return expected;
}

}  // namespace sam3::test
