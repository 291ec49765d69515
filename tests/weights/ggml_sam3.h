#pragma once

#include "tests/weights/files.h"
#include "weights/weight_file.h"

#include <sstream>

namespace sam3::test {

// The model sam3-a as a .ggml file: all but the numbers was written by a Python script, the numbers come from sam3-a's
// safetensors. A line of the list has a place in what was written and the tensors, or rows ("name#2"), to put there.
inline Bytes ggml_sam3() {
    const std::string data = SAM3_TEST_DATA;
    const auto weights = open_weight_file(data + "/models/sam3-a");
    const Bytes bare = read_bytes(data + "/weights/sam3-a-ggml.bin");
    std::ifstream list(data + "/weights/sam3-a-ggml.txt");
    Bytes file;
    size_t taken = 0;
    for (std::string line; std::getline(list, line);) {
        std::istringstream fields(line);
        std::string field;
        std::getline(fields, field, ';');
        const size_t place = std::stoul(field);
        file.insert(file.end(), bare.begin() + static_cast<ptrdiff_t>(taken),
                    bare.begin() + static_cast<ptrdiff_t>(place));
        taken = place;
        while (std::getline(fields, field, ';')) {
            const size_t mark = field.find('#');
            const WeightTensor* tensor = weights->find(field.substr(0, mark));
            if (tensor == nullptr) fail("sam3-a has no ", field);
            const uint8_t *begin = tensor->data, *end = tensor->data + tensor->bytes;
            if (mark != field.npos) {
                const size_t row = tensor->bytes / static_cast<size_t>(tensor->shape[0]);
                begin += row * std::stoul(field.substr(mark + 1));
                end = begin + row;
            }
            file.insert(file.end(), begin, end);
        }
    }
    file.insert(file.end(), bare.begin() + static_cast<ptrdiff_t>(taken), bare.end());
    return file;
}

}  // namespace sam3::test
