#pragma once

#include "runtime/shape.h"
#include "util/mapped_file.h"
#include "weights/metadata.h"
#include "weights/weight_type.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sam3 {

// A tensor where it lies in its file: nothing is copied, the data may have any alignment.
struct WeightTensor {
    std::string name;
    WeightType type = WeightType::f32;
    Shape shape;  // outermost first, PyTorch's order
    const uint8_t* data = nullptr;
    size_t bytes = 0;
    std::string type_name;  // the file's own word, for messages: "F8_E4M3"
};

// What a reader of one format hands over.
struct WeightFileContents {
    std::string format;  // "safetensors", "GGUF", "PyTorch file", "ggml", "Hugging Face folder"
    std::string path;
    Metadata metadata;
    std::vector<WeightTensor> tensors;                                // unique names
    std::vector<std::shared_ptr<const MappedFile>> mappings;          // what the tensors point into
    std::vector<std::shared_ptr<const std::vector<uint8_t>>> copies;  // likewise, where a file has values out of order
    std::string side_folder;  // where config.json and the like lie; may be empty
};

// Named tensors and metadata of a file or folder. Immutable, so any thread may use it; tensor data stays valid as long
// as the WeightFile lives.
class WeightFile {
public:
    explicit WeightFile(WeightFileContents contents);
    WeightFile(const WeightFile&) = delete;
    WeightFile& operator=(const WeightFile&) = delete;

    const std::string& format() const { return contents_.format; }
    const std::string& path() const { return contents_.path; }
    const Metadata& metadata() const { return contents_.metadata; }
    const std::vector<WeightTensor>& tensors() const { return contents_.tensors; }
    const WeightTensor* find(std::string_view name) const;  // null: not there
    const std::vector<std::shared_ptr<const MappedFile>>& mappings() const { return contents_.mappings; }

    // Files beside a weight file or in a Hugging Face folder: config.json, processor_config.json,
    // preprocessor_config.json, tokenizer.json, vocab.json, merges.txt, tokenizer_config.json. Empty when absent.
    std::optional<std::string> side_path(std::string_view name) const;
    std::optional<std::string> side_file(std::string_view name, size_t max_bytes = size_t{64} << 20) const;

    // Lets the system start reading a tensor that will soon be converted.
    void prefetch(const WeightTensor& tensor) const;
    // Lets the system take back the pages of a tensor, or of all, after conversion; they are read again when touched.
    void release(const WeightTensor& tensor) const;
    void release() const;

private:
    WeightFileContents contents_;
    std::unordered_map<std::string_view, size_t> index_;  // keys point into contents_.tensors
};

// Opens a safetensors, PyTorch, GGUF or .ggml file or a Hugging Face folder; the kind is recognised by content.
// Anything else fails with a sentence that says what was found and what to try.
std::shared_ptr<const WeightFile> open_weight_file(const std::string& path);

constexpr size_t kMaxTensorName = 1024;  // bytes; longer names are refused

// Fails with a sentence when two tensors share bytes.
void require_no_overlap(const std::vector<WeightTensor>& tensors, const std::string& path);

}  // namespace sam3
