#pragma once

#include "runtime/tensor.h"
#include "support/data_path.h"
#include "weights/weight_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

// The reference's answers as tests/goldens writes them (docs/parity.md): small tensors whole, large ones as every n-th
// value of the flat tensor with its minimum, maximum, mean and standard deviation.
namespace sam3::test {

class Golden {
public:
    explicit Golden(const std::string& path) : file_(open_weight_file(path)) {}

    bool has(const std::string& name) const { return file_->find(name) || file_->find(name + ".sample"); }
    std::string text(const std::string& key) const { return file_->metadata().get_string(key); }
    double number(const std::string& key) const { return std::stod(text(key)); }

    // A whole tensor as floats (u8 and i32 converted), in host memory.
    Tensor tensor(const std::string& name) const {
        const WeightTensor* stored = file_->find(name);
        if (stored == nullptr) throw std::runtime_error("no golden named " + name + " in " + file_->path());
        Tensor out = Tensor::host(stored->shape);
        for (int64_t i = 0; i < out.numel(); ++i) out.data<float>()[i] = value(*stored, i);
        return out;
    }
    std::vector<uint8_t> bytes(const std::string& name) const {
        const WeightTensor* stored = file_->find(name);
        if (stored == nullptr) throw std::runtime_error("no golden named " + name + " in " + file_->path());
        return {stored->data, stored->data + stored->bytes};
    }
    Shape shape(const std::string& name) const {
        if (const WeightTensor* stored = file_->find(name)) return stored->shape;
        Shape shape;
        std::stringstream list(text("shape." + name));
        for (std::string item; std::getline(list, item, ',');) shape.push_back(std::stoll(item));
        return shape;
    }

    // Largest difference divided by the golden's range; infinite for NaN or another number of elements.
    double error(const std::string& name, const Tensor& actual) const {
        constexpr double kBad = std::numeric_limits<double>::infinity();
        if (actual.numel() != shape(name).numel() || !actual.is_dense()) return kBad;
        const float* values = actual.data<float>();
        const WeightTensor* whole = file_->find(name);
        const WeightTensor& stored = whole ? *whole : *file_->find(name + ".sample");
        const int64_t stride = whole ? 1 : std::stoll(text("stride." + name));
        double low = 1e300;
        double high = -1e300;
        double worst = 0;
        for (int64_t i = 0; i < stored.shape.numel(); ++i) {
            const double expected = static_cast<double>(value(stored, i));
            const double difference = std::abs(expected - static_cast<double>(values[i * stride]));
            if (std::isnan(difference)) return kBad;
            low = std::min(low, expected);
            high = std::max(high, expected);
            worst = std::max(worst, difference);
        }
        if (!whole) {
            const WeightTensor& stats = *file_->find(name + ".stats");
            low = static_cast<double>(value(stats, 0));
            high = static_cast<double>(value(stats, 1));
        }
        // A single value has no range; its size stands in for it.
        const double range = shape(name).numel() == 1 ? std::max(1.0, std::abs(high)) : high - low;
        return stored.shape.numel() == 0 ? 0 : worst / std::max(range, 1e-12);
    }

private:
    static float value(const WeightTensor& tensor, int64_t i) {
        float f = 0;
        int32_t n = 0;
        switch (tensor.type) {
            case WeightType::f32: std::memcpy(&f, tensor.data + 4 * i, 4); return f;
            case WeightType::i32: std::memcpy(&n, tensor.data + 4 * i, 4); return static_cast<float>(n);
            case WeightType::u8: return static_cast<float>(tensor.data[i]);
            default: throw std::runtime_error("goldens hold f32, i32 and u8 only");
        }
    }
    std::shared_ptr<const WeightFile> file_;
};

}  // namespace sam3::test
