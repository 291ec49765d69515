#include "weights/torch_file.h"

#include "util/checked.h"
#include "util/error.h"
#include "weights/pickle.h"
#include "weights/quote_name.h"
#include "weights/torch_globals.h"
#include "weights/zip_archive.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <optional>
#include <unordered_map>

namespace sam3 {

namespace {

using Kind = PickleValue::Kind;

// A tensor as the pickle describes it; offset and strides count values.
struct Description {
    const TorchType* type = nullptr;
    std::string storage;
    uint64_t offset = 0;
    Shape shape;
    std::array<uint64_t, Shape::kMaxRank> strides{};
    bool is_negated = false;  // PyTorch's lazy minus, on the imaginary part of a conjugate
};

// Whether its values lie one after the other.
bool is_dense(const Description& tensor) {
    uint64_t expected = 1;
    for (int i = tensor.shape.rank(); i-- > 0;) {
        if (tensor.shape[i] != 1 && tensor.strides[static_cast<size_t>(i)] != expected) return false;
        expected *= static_cast<uint64_t>(tensor.shape[i]);
    }
    return true;
}

// One behind the last value that a tensor with at least one value touches; empty when no file is that large.
std::optional<uint64_t> end_of(const Description& tensor) {
    std::optional<uint64_t> end = checked_add(tensor.offset, 1);
    for (int i = 0; i < tensor.shape.rank() && end; ++i) {
        const auto steps = static_cast<uint64_t>(tensor.shape[i] - 1);
        const std::optional<uint64_t> way = checked_mul(steps, tensor.strides[static_cast<size_t>(i)]);
        end = way ? checked_add(*end, *way) : std::nullopt;
    }
    return end;
}

// `start` is where the tensor's first value lies.
std::vector<uint8_t> gather(const Description& tensor, const uint8_t* start) {
    const uint64_t width = tensor.type->bytes;
    const auto count = static_cast<size_t>(tensor.shape.numel());
    std::vector<uint8_t> values(count * width);
    std::array<int64_t, Shape::kMaxRank> index{};
    uint64_t at = 0;
    for (size_t i = 0; i < count; ++i) {
        std::memcpy(values.data() + i * width, start + at * width, width);
        for (int d = tensor.shape.rank(); d-- > 0;) {  // the next index, as an odometer turns
            const auto dim = static_cast<size_t>(d);
            at += tensor.strides[dim];
            if (++index[dim] < tensor.shape[d]) break;
            at -= tensor.strides[dim] * static_cast<uint64_t>(index[dim]);
            index[dim] = 0;
        }
    }
    return values;
}

// The archive's entries below the folder that holds data.pkl.
class Archive {
public:
    Archive(const uint8_t* data, size_t size, const std::string& path) : path_(path) {
        std::vector<ZipEntry> entries = read_zip(data, size, path);
        const auto is_pickle = [](const ZipEntry& entry) {
            const size_t slash = entry.name.find('/');
            return entry.name == "data.pkl" || (slash != entry.name.npos && entry.name.substr(slash) == "/data.pkl");
        };
        const auto pickle = std::find_if(entries.begin(), entries.end(), is_pickle);
        if (pickle == entries.end())
            fail(path, ": expected weights, found a zip archive of ", entries.size(),
                 " entries without a data.pkl, so it is none of PyTorch's: unpack it first");
        const std::string folder = pickle->name.substr(0, pickle->name.size() - std::string_view("data.pkl").size());
        for (ZipEntry& entry : entries)
            if (entry.name.compare(0, folder.size(), folder) == 0)
                entries_.emplace(entry.name.substr(folder.size()), std::move(entry));
        if (find("constants.pkl") != nullptr)
            fail(path,
                 ": found a TorchScript program, expected weights: load it with torch.jit.load and save its "
                 "state_dict() with torch.save");
        const ZipEntry* order = find("byteorder");
        if (order != nullptr && std::string_view(reinterpret_cast<const char*>(order->data), order->bytes) == "big")
            fail(path, ": found a PyTorch file with big-endian numbers: save it again on a little-endian machine");
    }

    // Null when there is none; fails when it is there but cannot be read as it lies.
    const ZipEntry* find(const std::string& name) const {
        const auto found = entries_.find(name);
        if (found == entries_.end()) return nullptr;
        if (!found->second.is_plain)
            fail(path_, ": the entry ", quote_name(found->second.name),
                 " is compressed or encrypted, which PyTorch never does: unpack the archive and pack it again with "
                 "`zip -0 -r`, or load and save it in PyTorch");
        return &found->second;
    }

private:
    const std::string& path_;
    std::unordered_map<std::string, ZipEntry> entries_;
};

class StateDictReader {
public:
    StateDictReader(const Archive& archive, Pickle pickle, size_t file_size, const std::string& path)
        : archive_(archive), pickle_(std::move(pickle)), path_(path), copies_left_(file_size + kExtraCopies) {}

    void read(WeightFileContents& contents) {
        const PickleValue* dict = find_state_dict(pickle_.at(pickle_.root), 0);
        if (dict == nullptr)
            fail(path_,
                 ": found a PyTorch file without a state dict, neither at its top nor under 'model' or 'state_dict': "
                 "save the model's state_dict() with torch.save");
        std::unordered_map<std::string, size_t> places;
        const std::vector<uint32_t>& items = dict->items;
        for (size_t i = 0; i + 1 < items.size(); i += 2) {
            const PickleValue& key = pickle_.at(items[i]);
            const PickleValue* value = tensor_call(items[i + 1]);
            if (key.kind != Kind::text || value == nullptr) continue;
            if (key.text.size() > kMaxTensorName)
                fail(path_, ": a tensor name has ", key.text.size(), " bytes, expected at most ", kMaxTensorName);
            WeightTensor tensor = make_tensor(key.text, *value, contents);
            const auto [place, is_new] = places.emplace(key.text, contents.tensors.size());
            if (is_new)
                contents.tensors.push_back(std::move(tensor));
            else
                contents.tensors[place->second] = std::move(tensor);  // as in Python, the later value stays
        }
    }

private:
    // Only views with values out of order are copied; a view that repeats values could ask for any amount.
    static constexpr uint64_t kExtraCopies = uint64_t{16} << 20;

    [[noreturn]] void damaged(const std::string& name, std::string_view what) const {
        fail(path_, ": the tensor ", quote_name(name), " ", what, "; the file is damaged");
    }

    // The value of a key, or null. The last one counts, as in Python.
    const PickleValue* find(const PickleValue& dict, std::string_view name) const {
        for (size_t i = dict.items.size(); i >= 2; i -= 2) {
            const PickleValue& key = pickle_.at(dict.items[i - 2]);
            if (key.kind == Kind::text && key.text == name) return &pickle_.at(dict.items[i - 1]);
        }
        return nullptr;
    }

    // A training checkpoint holds other things beside the state dict, tensors among them, so the usual names go first.
    const PickleValue* find_state_dict(const PickleValue& dict, int depth) const {
        constexpr int kMaxDepth = 4;
        if (dict.kind != Kind::dict || depth > kMaxDepth) return nullptr;
        for (const char* name : {"model", "state_dict"}) {
            const PickleValue* value = find(dict, name);
            const PickleValue* inner = value != nullptr ? find_state_dict(*value, depth + 1) : nullptr;
            if (inner != nullptr) return inner;
        }
        for (size_t i = 0; i + 1 < dict.items.size(); i += 2)
            if (pickle_.at(dict.items[i]).kind == Kind::text && tensor_call(dict.items[i + 1]) != nullptr) return &dict;
        return nullptr;
    }

    // The call that describes the tensor, without the wrapping of a parameter; null when it is no tensor.
    const PickleValue* tensor_call(uint32_t number) const {
        const PickleValue* value = &pickle_.at(number);
        for (int wrappings = 0; wrappings < 3 && value->kind == Kind::call; ++wrappings) {
            const std::string& function = pickle_.at(value->items[0]).text;
            if (function == kTorchTensor || function == kTorchTypedTensor) return value;
            const std::vector<uint32_t>& arguments = pickle_.at(value->items[1]).items;
            if ((function != kTorchParameter && function != kTorchParameterWithState) || arguments.empty())
                return nullptr;
            value = &pickle_.at(arguments[0]);
        }
        return nullptr;
    }

    uint64_t read_size(const std::string& name, const PickleValue& value) const {
        if (value.kind != Kind::integer || value.integer < 0) damaged(name, "has a size that is no number");
        return static_cast<uint64_t>(value.integer);
    }

    // A storage is a persistent id: ("storage", type, key, device, number of values or, if untyped, of bytes).
    void read_storage(const std::string& name, const PickleValue& value, Description& tensor) const {
        const PickleValue* id = value.kind == Kind::persistent ? &pickle_.at(value.items[0]) : nullptr;
        if (id == nullptr || id->kind != Kind::tuple || id->items.size() < 5 ||
            pickle_.at(id->items[1]).kind != Kind::global || pickle_.at(id->items[2]).kind != Kind::text)
            damaged(name, "has no storage");
        const std::string& type = pickle_.at(id->items[1]).text;
        tensor.storage = pickle_.at(id->items[2]).text;
        if (type != kTorchUntypedStorage) tensor.type = torch_type_with_storage(type);
    }

    // Arguments of a tensor: storage, offset, sizes, strides, requires_grad, hooks, then the type (typed tensors only),
    // then a dict of flags (optional).
    Description read_description(const std::string& name, const PickleValue& call) const {
        const bool is_typed = pickle_.at(call.items[0]).text == kTorchTypedTensor;
        const std::vector<uint32_t>& arguments = pickle_.at(call.items[1]).items;
        const size_t flags = is_typed ? 7 : 6;
        if (arguments.size() < flags) damaged(name, "is described by too few values");
        Description tensor;
        read_storage(name, pickle_.at(arguments[0]), tensor);
        if (is_typed) tensor.type = torch_type_with_name(pickle_.at(arguments[6]).text);
        if (tensor.type == nullptr) damaged(name, "has no type");

        tensor.offset = read_size(name, pickle_.at(arguments[1]));
        const PickleValue &sizes = pickle_.at(arguments[2]), &strides = pickle_.at(arguments[3]);
        if (sizes.kind != Kind::tuple || strides.kind != Kind::tuple || sizes.items.size() != strides.items.size())
            damaged(name, "has no shape");
        if (sizes.items.size() > static_cast<size_t>(Shape::kMaxRank))
            fail(path_, ": the tensor ", quote_name(name), " has ", sizes.items.size(),
                 " dimensions, expected at most ", Shape::kMaxRank);
        for (size_t i = 0; i < sizes.items.size(); ++i) {
            tensor.shape.push_back(static_cast<int64_t>(read_size(name, pickle_.at(sizes.items[i]))));
            tensor.strides[i] = read_size(name, pickle_.at(strides.items[i]));
        }
        if (!checked_numel(tensor.shape)) damaged(name, "has an impossible shape " + to_string(tensor.shape));
        if (arguments.size() > flags) tensor.is_negated = has_flag(pickle_.at(arguments[flags]), "neg");
        return tensor;
    }

    bool has_flag(const PickleValue& dict, std::string_view name) const {
        const PickleValue* flag = dict.kind == Kind::dict ? find(dict, name) : nullptr;
        return flag != nullptr && flag->integer != 0;
    }

    WeightTensor make_tensor(const std::string& name, const PickleValue& call, WeightFileContents& contents) {
        const Description description = read_description(name, call);
        WeightTensor tensor;
        tensor.name = name;
        tensor.shape = description.shape;
        tensor.type = description.is_negated ? WeightType::unsupported : description.type->type;
        tensor.type_name = str(description.type->name, description.is_negated ? " with a lazy minus" : "");

        const ZipEntry* storage = archive_.find("data/" + description.storage);
        if (storage == nullptr) damaged(name, "lies in a storage that is not in the archive");
        tensor.data = storage->data;
        const auto count = static_cast<uint64_t>(tensor.shape.numel());
        if (count == 0) return tensor;
        const std::optional<uint64_t> end = end_of(description);
        if (!end || *end > storage->bytes / description.type->bytes)
            damaged(name,
                    str(to_string(tensor.shape), " reaches behind the ", storage->bytes, " bytes of its storage"));
        tensor.data += description.offset * description.type->bytes;
        // Each value is at a place of its own unless a stride repeats some, so this cannot overflow in a dense tensor.
        if (is_dense(description)) {
            tensor.bytes = count * description.type->bytes;
        } else if (tensor.type != WeightType::unsupported) {
            copy_view(description, tensor, contents);
        }
        return tensor;
    }

    void copy_view(const Description& description, WeightTensor& tensor, WeightFileContents& contents) {
        const auto count = static_cast<uint64_t>(tensor.shape.numel());
        const std::optional<uint64_t> bytes = checked_mul(count, description.type->bytes);
        if (!bytes || *bytes > copies_left_)
            fail(path_, ": the tensor ", quote_name(tensor.name), " ", to_string(tensor.shape),
                 " repeats values of its storage until it is larger than the file: save it with .contiguous()");
        copies_left_ -= *bytes;
        const auto copy = std::make_shared<const std::vector<uint8_t>>(gather(description, tensor.data));
        tensor.data = copy->data();
        tensor.bytes = copy->size();
        contents.copies.push_back(copy);
    }

    const Archive& archive_;
    Pickle pickle_;
    const std::string& path_;
    uint64_t copies_left_;  // bytes
};

}  // namespace

WeightFileContents parse_torch_file(const uint8_t* data, size_t size, const std::string& path) {
    const Archive archive(data, size, path);
    const ZipEntry& entry = *archive.find("data.pkl");
    WeightFileContents contents;
    contents.format = "PyTorch file";
    contents.path = path;
    StateDictReader reader(archive, parse_pickle(entry.data, entry.bytes, path, is_torch_global), size, path);
    reader.read(contents);
    return contents;
}

WeightFileContents open_torch_file(std::shared_ptr<const MappedFile> file) {
    WeightFileContents contents = parse_torch_file(file->data(), file->size(), file->path());
    contents.side_folder = std::filesystem::absolute(file->path()).parent_path().string();
    contents.mappings.push_back(std::move(file));
    return contents;
}

}  // namespace sam3
