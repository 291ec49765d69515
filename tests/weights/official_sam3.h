#pragma once

#include "tests/weights/zip_builder.h"
#include "weights/weight_file.h"

#include <sstream>

namespace sam3::test {

// The model sam3-a as Meta's file would hold it: the pickle is PyTorch's own, the numbers come from sam3-a's
// safetensors. A line of the list names the tensors that a storage is made of, or "zeros" and how many bytes.
inline Bytes official_sam3() {
    const std::string data = SAM3_TEST_DATA;
    const auto weights = open_weight_file(data + "/models/sam3-a");
    ZipParts parts{{"sam3/data.pkl", read_bytes(data + "/weights/sam3-a-official.pkl")}};
    std::ifstream list(data + "/weights/sam3-a-official.txt");
    int number = 0;
    for (std::string line; std::getline(list, line); ++number) {
        Bytes storage;
        std::istringstream names(line);
        for (std::string name; std::getline(names, name, ';');) {
            if (name.compare(0, 6, "zeros ") == 0) {
                storage.resize(storage.size() + std::stoul(name.substr(6)));
                continue;
            }
            const WeightTensor* tensor = weights->find(name);
            if (tensor == nullptr) fail("sam3-a has no ", name);
            storage.insert(storage.end(), tensor->data, tensor->data + tensor->bytes);
        }
        parts.emplace_back("sam3/data/" + std::to_string(number), storage);
    }
    parts.emplace_back("sam3/version", Bytes{'3', '\n'});
    return make_zip(parts, {.descriptors = true, .comment = ""});
}

}  // namespace sam3::test
