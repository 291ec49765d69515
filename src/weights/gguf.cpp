#include "weights/gguf.h"

#include "util/checked.h"
#include "util/error.h"
#include "weights/byte_cursor.h"
#include "weights/ggml_type.h"
#include "weights/quote_name.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <type_traits>
#include <unordered_set>

namespace sam3 {

namespace {

constexpr uint64_t kMaxMetadataArrayBytes = uint64_t{256} << 20;
constexpr int kMaxArrayNesting = 4;
constexpr uint32_t kMaxAlignment = 1U << 20;

std::string read_string(ByteCursor& cursor) { return std::string(cursor.take_text(cursor.read<uint64_t>())); }

bool read_bool(ByteCursor& cursor) {
    const uint8_t byte = cursor.read<uint8_t>();
    if (byte > 1) fail(cursor.path(), ": expected a bool (0 or 1) in the GGUF metadata, found ", int{byte});
    return byte != 0;
}

// Calls `use` with an empty value of the variant's alternative `number`; false when there is none.
template <typename Variant, size_t Index = 0, typename Use>
bool with_alternative(uint32_t number, const Use& use) {
    if constexpr (Index == std::variant_size_v<Variant>) {
        return false;
    } else {
        if (number != Index) return with_alternative<Variant, Index + 1>(number, use);
        use(std::variant_alternative_t<Index, Variant>{});
        return true;
    }
}

MetadataArray read_array(ByteCursor& cursor, int nesting) {
    if (nesting > kMaxArrayNesting)
        fail(cursor.path(), ": GGUF metadata arrays are nested more than ", kMaxArrayNesting, " deep");
    const uint32_t type = cursor.read<uint32_t>();
    const uint64_t announced = cursor.read<uint64_t>();
    MetadataArray array;
    const bool known = with_alternative<decltype(array.items)>(type, [&](auto list) {
        using T = typename decltype(list)::value_type;
        constexpr uint64_t kSmallest = std::is_same_v<T, std::string>     ? sizeof(uint64_t)
                                       : std::is_same_v<T, MetadataArray> ? sizeof(uint32_t) + sizeof(uint64_t)
                                       : std::is_same_v<T, bool>          ? 1
                                                                          : sizeof(T);
        const uint64_t count = cursor.checked_count(announced, kSmallest, "array elements");
        if (count > kMaxMetadataArrayBytes / sizeof(T))
            fail(cursor.path(), ": a GGUF metadata array has ", count, " elements, more than this reader accepts");
        if constexpr (std::is_same_v<T, std::string>) {
            for (uint64_t i = 0; i < count; ++i) list.push_back(read_string(cursor));
        } else if constexpr (std::is_same_v<T, MetadataArray>) {
            for (uint64_t i = 0; i < count; ++i) list.push_back(read_array(cursor, nesting + 1));
        } else if constexpr (std::is_same_v<T, bool>) {
            for (uint64_t i = 0; i < count; ++i) list.push_back(read_bool(cursor));
        } else if (count > 0) {
            list.resize(count);
            std::memcpy(list.data(), cursor.take(count * sizeof(T)), count * sizeof(T));
        }
        array.items = std::move(list);
    });
    if (!known) fail(cursor.path(), ": unknown type ", type, " of a GGUF metadata array");
    return array;
}

MetadataValue read_value(ByteCursor& cursor) {
    const uint32_t type = cursor.read<uint32_t>();
    MetadataValue value;
    const bool known = with_alternative<MetadataValue>(type, [&](auto empty) {
        using T = decltype(empty);
        if constexpr (std::is_same_v<T, std::string>)
            value = read_string(cursor);
        else if constexpr (std::is_same_v<T, MetadataArray>)
            value = read_array(cursor, 1);
        else if constexpr (std::is_same_v<T, bool>)
            value = read_bool(cursor);
        else
            value = cursor.read<T>();
    });
    if (!known) fail(cursor.path(), ": unknown type ", type, " of a GGUF metadata value");
    return value;
}

struct GgufHeader {
    uint64_t tensors = 0;
    uint64_t keys = 0;
};

GgufHeader read_header(ByteCursor& cursor) {
    if (std::memcmp(cursor.take(4), "GGUF", 4) != 0) fail(cursor.path(), ": expected a GGUF file, found another kind");
    const uint32_t version = cursor.read<uint32_t>();
    if (version == __builtin_bswap32(2) || version == __builtin_bswap32(3))
        fail(cursor.path(), ": found a big-endian GGUF file: convert it to little-endian");
    if (version != 2 && version != 3)
        fail(cursor.path(), ": expected GGUF version 2 or 3, found ", version, ": convert the model again");
    GgufHeader header;
    header.tensors = cursor.read<uint64_t>();
    header.keys = cursor.read<uint64_t>();
    cursor.checked_count(header.tensors, 24, "tensors");  // name length, rank, type, offset
    cursor.checked_count(header.keys, 13, "metadata keys");
    return header;
}

Metadata read_metadata(ByteCursor& cursor, uint64_t keys) {
    Metadata metadata;
    for (uint64_t i = 0; i < keys; ++i) {
        std::string key = read_string(cursor);
        if (metadata.has(key)) fail(cursor.path(), ": the GGUF metadata key ", quote_name(key), " stands there twice");
        MetadataValue value = read_value(cursor);
        metadata.add(std::move(key), std::move(value));
    }
    return metadata;
}

uint64_t alignment_of(const Metadata& metadata, const std::string& path) {
    const int64_t alignment = metadata.get_int("general.alignment", kGgufDefaultAlignment);
    if (alignment < 1 || alignment > kMaxAlignment || (alignment & (alignment - 1)) != 0)
        fail(path, ": the GGUF alignment should be a power of two, found ", alignment);
    return static_cast<uint64_t>(alignment);
}

struct TensorInfo {
    WeightTensor tensor;
    uint64_t offset = 0;
};

TensorInfo read_tensor_info(ByteCursor& cursor) {
    TensorInfo info;
    WeightTensor& tensor = info.tensor;
    tensor.name = read_string(cursor);
    if (tensor.name.size() > kMaxTensorName)
        fail(cursor.path(), ": a tensor name has ", tensor.name.size(), " bytes, expected at most ", kMaxTensorName);
    const std::string who = str(cursor.path(), ": the tensor ", quote_name(tensor.name));

    const uint32_t rank = cursor.read<uint32_t>();
    if (rank > static_cast<uint32_t>(Shape::kMaxRank))
        fail(who, " has ", rank, " dimensions, expected at most ", Shape::kMaxRank);
    std::array<int64_t, Shape::kMaxRank> dims{};  // innermost first in the file
    for (uint32_t i = 0; i < rank; ++i) dims[i] = cursor.read<int64_t>();
    for (uint32_t i = rank; i-- > 0;) tensor.shape.push_back(dims[i]);
    if (!checked_numel(tensor.shape)) fail(who, " has an impossible shape ", to_string(tensor.shape));

    const uint32_t number = cursor.read<uint32_t>();
    const GgmlType* known = find_ggml_type(number);
    tensor.type = known == nullptr ? WeightType::unsupported : known->type;
    tensor.type_name = known == nullptr ? str("ggml type ", number) : std::string(known->name);
    if (tensor.type != WeightType::unsupported) {
        const std::optional<uint64_t> bytes = checked_bytes(tensor.type, tensor.shape);
        if (!bytes)
            fail(who, " ", to_string(tensor.shape), " cannot be of type ", tensor.type_name,
                 ": its rows are not a whole number of blocks, or it is too large");
        tensor.bytes = *bytes;
    }
    info.offset = cursor.read<uint64_t>();
    return info;
}

}  // namespace

uint32_t gguf_type_number(WeightType type) {
    if (const GgmlType* known = find_ggml_type(type)) return known->number;
    fail("GGUF has no tensor type for ", name_of(type));
}

WeightFileContents parse_gguf(const uint8_t* data, size_t size, const std::string& path) {
    ByteCursor cursor(data, size, path, "GGUF header");
    const GgufHeader header = read_header(cursor);

    WeightFileContents contents;
    contents.format = "GGUF";
    contents.path = path;
    contents.metadata = read_metadata(cursor, header.keys);
    const uint64_t alignment = alignment_of(contents.metadata, path);

    std::vector<TensorInfo> infos;
    std::unordered_set<std::string> names;
    for (uint64_t i = 0; i < header.tensors; ++i) {
        infos.push_back(read_tensor_info(cursor));
        const std::string& name = infos.back().tensor.name;
        if (!names.insert(name).second) fail(path, ": the tensor name ", quote_name(name), " stands there twice");
    }

    const uint64_t data_begin = (cursor.position() + alignment - 1) / alignment * alignment;
    const uint64_t data_size = data_begin < size ? size - data_begin : 0;
    contents.tensors.reserve(infos.size());
    for (TensorInfo& info : infos) {
        WeightTensor& tensor = info.tensor;
        if (info.offset % alignment != 0)
            fail(path, ": the tensor ", quote_name(tensor.name), " lies at offset ", info.offset,
                 ", which is not aligned to ", alignment, " bytes; the file is damaged");
        if (!range_fits(info.offset, tensor.bytes, data_size))
            fail(path, ": the tensor ", quote_name(tensor.name), " needs ", tensor.bytes, " bytes at offset ",
                 info.offset, " of the data, but the file has only ", data_size, ": was its download interrupted?");
        tensor.data = data_size == 0 ? data : data + data_begin + info.offset;
        contents.tensors.push_back(std::move(tensor));
    }
    require_no_overlap(contents.tensors, path);
    return contents;
}

WeightFileContents open_gguf(std::shared_ptr<const MappedFile> file) {
    WeightFileContents contents = parse_gguf(file->data(), file->size(), file->path());
    contents.side_folder = std::filesystem::absolute(file->path()).parent_path().string();
    contents.mappings.push_back(std::move(file));
    return contents;
}

}  // namespace sam3
