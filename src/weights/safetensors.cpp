#include "weights/safetensors.h"

#include "util/checked.h"
#include "util/error.h"
#include "weights/quote_name.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

namespace sam3 {

namespace {

struct TypeName {
    std::string_view name;
    WeightType type;
};
constexpr std::array<TypeName, 10> kTypes{{{"F32", WeightType::f32},
                                           {"F16", WeightType::f16},
                                           {"BF16", WeightType::bf16},
                                           {"F64", WeightType::f64},
                                           {"I8", WeightType::i8},
                                           {"U8", WeightType::u8},
                                           {"I16", WeightType::i16},
                                           {"I32", WeightType::i32},
                                           {"I64", WeightType::i64},
                                           {"BOOL", WeightType::bool_}}};

WeightType type_of(std::string_view name) {
    for (const TypeName& known : kTypes)
        if (known.name == name) return known.type;
    return WeightType::unsupported;
}

// One entry of the header as it was written.
struct Entry {
    std::string name;
    std::optional<std::string> type;
    std::optional<std::vector<uint64_t>> shape;
    std::optional<std::vector<uint64_t>> offsets;
};

// Follows the parser's events, so that no tree of the header is built and nesting deeper than the format's own stops
// the parser at once. Returning false stops it; `problem` then says why.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
public:
    std::vector<Entry> entries;
    Metadata metadata;
    std::string problem;

    bool null() override { return stop("a null"); }
    bool boolean(bool) override { return stop("a bool"); }
    bool number_float(double, const std::string&) override { return stop("a number with a fraction"); }
    bool binary(binary_t&) override { return stop("binary data"); }
    bool number_integer(int64_t) override { return stop("a negative number"); }

    bool number_unsigned(uint64_t value) override {
        if (list_ == nullptr) return stop("a number");
        if (list_->size() >= 64) return stop("a list of more than 64 numbers");
        list_->push_back(value);
        return true;
    }

    bool string(std::string& value) override {
        if (depth_ == 2 && in_metadata_) {
            if (!metadata.add(key_, std::move(value))) return stop("the metadata key twice");
            return true;
        }
        if (depth_ != 2 || list_ != nullptr || key_ != "dtype") return stop("a text");
        if (entries.back().type) return stop("dtype twice");
        entries.back().type = std::move(value);
        return true;
    }

    bool start_object(size_t) override {
        if (++depth_ > 2 || list_ != nullptr) return stop("an object");
        return true;
    }

    bool key(std::string& value) override {
        if (depth_ == 1) {
            in_metadata_ = value == "__metadata__";
            if (value.size() > kMaxTensorName) return stop("a tensor name of more than 1024 bytes");
            if (!names_.insert(value).second) {
                problem = str("the name ", quote_name(value), " stands in the header twice");
                return false;
            }
            if (!in_metadata_) entries.push_back({std::move(value), {}, {}, {}});
        } else {
            key_ = std::move(value);
        }
        return true;
    }

    bool end_object() override {
        --depth_;
        return true;
    }

    bool start_array(size_t) override {
        if (depth_ != 2 || list_ != nullptr || in_metadata_) return stop("a list");
        Entry& entry = entries.back();
        if (key_ != "shape" && key_ != "data_offsets") return stop("a list");
        std::optional<std::vector<uint64_t>>& target = key_ == "shape" ? entry.shape : entry.offsets;
        if (target) return stop("this key twice");
        list_ = &target.emplace();
        return true;
    }

    bool end_array() override {
        list_ = nullptr;
        return true;
    }

    bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
        if (problem.empty()) problem = str("its header is not JSON (byte ", position, ")");
        return false;
    }

private:
    bool stop(std::string_view found) {
        const std::string where = entries.empty() || in_metadata_
                                      ? std::string("its header")
                                      : str("the entry of ", quote_name(entries.back().name));
        problem =
            str(where, " has ", found, " at ", key_.empty() ? std::string("an unexpected place") : quote_name(key_));
        return false;
    }

    int depth_ = 0;
    bool in_metadata_ = false;
    std::string key_;
    std::vector<uint64_t>* list_ = nullptr;
    std::unordered_set<std::string> names_;
};

WeightTensor checked_tensor(Entry& entry, const uint8_t* data, uint64_t data_size, const std::string& path) {
    const std::string who = str(path, ": the tensor ", quote_name(entry.name));
    if (!entry.type || !entry.shape || !entry.offsets)
        fail(who, " lacks its dtype, shape or data_offsets; the file is damaged");

    WeightTensor tensor;
    if (entry.shape->size() > static_cast<size_t>(Shape::kMaxRank))
        fail(who, " has ", entry.shape->size(), " dimensions, expected at most ", Shape::kMaxRank);
    for (uint64_t d : *entry.shape) {
        if (d > static_cast<uint64_t>(INT64_MAX)) fail(who, " has an impossible dimension ", d);
        tensor.shape.push_back(static_cast<int64_t>(d));
    }
    if (entry.offsets->size() != 2 || (*entry.offsets)[0] > (*entry.offsets)[1])
        fail(who, " has data_offsets that are not [begin, end]; the file is damaged");
    const uint64_t begin = (*entry.offsets)[0], length = (*entry.offsets)[1] - begin;
    if (!range_fits(begin, length, data_size))
        fail(who, " ends at byte ", (*entry.offsets)[1], " of the data, but the file has only ", data_size,
             ": was its download interrupted?");

    tensor.type = type_of(*entry.type);
    if (!checked_numel(tensor.shape)) fail(who, " has an impossible shape ", to_string(tensor.shape));
    if (tensor.type != WeightType::unsupported) {
        const std::optional<uint64_t> expected = checked_bytes(tensor.type, tensor.shape);
        if (!expected || *expected != length)
            fail(who, " ", to_string(tensor.shape), " of type ", quote_name(*entry.type), " should have ",
                 expected ? std::to_string(*expected) : "too many", " bytes, found ", length);
    }
    tensor.name = std::move(entry.name);
    tensor.data = data + begin;
    tensor.bytes = length;
    tensor.type_name = std::move(*entry.type);
    return tensor;
}

}  // namespace

WeightFileContents parse_safetensors(const uint8_t* data, size_t size, const std::string& path) {
    uint64_t header_size = 0;
    if (size < sizeof header_size) fail(path, ": expected safetensors, found only ", size, " bytes");
    std::memcpy(&header_size, data, sizeof header_size);
    if (header_size > kMaxSafetensorsHeader)
        fail(path, ": expected a safetensors header of at most ", kMaxSafetensorsHeader, " bytes, found ", header_size);
    if (!range_fits(sizeof header_size, header_size, size))
        fail(path, ": the safetensors header should have ", header_size, " bytes, but the file has only ", size,
             ": was its download interrupted?");

    const char* header = reinterpret_cast<const char*>(data) + sizeof header_size;
    if (header_size == 0 || header[0] != '{') fail(path, ": the safetensors header does not begin with '{'");
    HeaderReader reader;
    if (!nlohmann::json::sax_parse(header, header + header_size, &reader))
        fail(path, " is damaged: ", reader.problem.empty() ? "its header is not complete" : reader.problem);

    WeightFileContents contents;
    contents.format = "safetensors";
    contents.path = path;
    contents.metadata = std::move(reader.metadata);
    contents.tensors.reserve(reader.entries.size());
    const uint64_t data_begin = sizeof header_size + header_size;
    for (Entry& entry : reader.entries)
        contents.tensors.push_back(checked_tensor(entry, data + data_begin, size - data_begin, path));
    require_no_overlap(contents.tensors, path);
    return contents;
}

WeightFileContents open_safetensors(std::shared_ptr<const MappedFile> file) {
    WeightFileContents contents = parse_safetensors(file->data(), file->size(), file->path());
    contents.side_folder = std::filesystem::absolute(file->path()).parent_path().string();
    contents.mappings.push_back(std::move(file));
    return contents;
}

}  // namespace sam3
