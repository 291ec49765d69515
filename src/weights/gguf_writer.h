#pragma once

#include "weights/metadata.h"
#include "weights/weight_type.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace sam3 {

// Writes a GGUF file front to back: first set and declare everything, then hand over the data of each tensor in the
// order of declaration, then finish(). The file grows under a temporary name beside `path` and takes its name only
// when it is complete and on disk; without finish() nothing is left behind.
class GgufWriter {
public:
    explicit GgufWriter(std::string path);
    GgufWriter(const GgufWriter&) = delete;
    GgufWriter& operator=(const GgufWriter&) = delete;
    ~GgufWriter();

    void set(std::string key, MetadataValue value);
    void declare(std::string name, WeightType type, const Shape& shape);  // shape in PyTorch's order

    // The next declared tensor: its bytes as they are, or f32 values to be encoded into the declared type.
    void write_bytes(const uint8_t* data, size_t bytes);
    void write_f32(const float* values, size_t count);

    // Fills in a text that was not known when the header was written: as long as the one that was set.
    void replace_text(const std::string& key, const std::string& text);

    void finish();

private:
    struct Declared {
        std::string name;
        WeightType type;
        Shape shape;
        uint64_t bytes;
        uint64_t offset;
    };

    const Declared& next();
    void begin();  // writes the header before the first tensor
    void put(const void* data, size_t bytes);
    void pad();

    std::string path_;
    std::string temporary_;
    int file_ = -1;
    Metadata metadata_;
    std::vector<Declared> tensors_;
    std::unordered_set<std::string> names_;
    std::unordered_map<std::string, std::pair<uint64_t, size_t>> texts_;  // key -> place in the file, length
    uint64_t data_bytes_ = 0;                                             // of the declared tensors, padded
    uint64_t written_ = 0;                                                // bytes of the file
    size_t done_ = 0;                                                     // tensors written
    bool begun_ = false;
};

}  // namespace sam3
