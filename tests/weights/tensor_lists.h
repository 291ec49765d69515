#pragma once

#include "runtime/shape.h"
#include "weights/weight_file.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

// Tensors in memory, to write one kind of file from another.
namespace sam3::test {

struct NamedTensor {
    std::string name;
    std::string type;  // safetensors' word
    Shape shape;
    std::vector<uint8_t> data;
};

inline std::vector<NamedTensor> tensors_of(const WeightFileContents& contents) {
    std::vector<NamedTensor> tensors;
    for (const WeightTensor& tensor : contents.tensors)
        if (tensor.type == WeightType::f16)
            tensors.push_back({tensor.name, "F16", tensor.shape, {tensor.data, tensor.data + tensor.bytes}});
    return tensors;
}

inline std::vector<uint8_t> to_safetensors(const std::vector<NamedTensor>& tensors) {
    nlohmann::json header = nlohmann::json::object();
    std::vector<uint8_t> data;
    for (const NamedTensor& tensor : tensors) {
        header[tensor.name] = {{"dtype", tensor.type},
                               {"shape", std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end())},
                               {"data_offsets", {data.size(), data.size() + tensor.data.size()}}};
        data.insert(data.end(), tensor.data.begin(), tensor.data.end());
    }
    const std::string text = header.dump();
    const uint64_t length = text.size();
    std::vector<uint8_t> file(sizeof length);
    std::memcpy(file.data(), &length, sizeof length);
    file.insert(file.end(), text.begin(), text.end());
    file.insert(file.end(), data.begin(), data.end());
    return file;
}

}  // namespace sam3::test
