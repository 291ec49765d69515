#include "weights/binder.h"

#include "util/error.h"
#include "weights/codecs.h"
#include "weights/edit_distance.h"
#include "weights/quote_name.h"

#include <algorithm>
#include <cstdlib>

namespace sam3 {

namespace {

constexpr size_t kListed = 10;                   // of each kind of problem
constexpr int64_t kMaxZeros = int64_t{1} << 28;  // values; SAM 3's largest tensor has 2^26

template <typename Items, typename Describe>
void append_list(std::string& text, const Items& items, std::string_view one, std::string_view many,
                 const Describe& describe) {
    if (items.empty()) return;
    text += str("\n  ", items.size(), " ", items.size() == 1 ? one : many, ":");
    for (size_t i = 0; i < std::min(items.size(), kListed); ++i) text += "\n    " + describe(items[i]);
    if (items.size() > kListed) text += str("\n    and ", items.size() - kListed, " more");
}

// [64, 9 * 32] for [64, 32, 3, 3].
bool is_flattened(const Shape& stored, const Shape& shape) {
    return stored.rank() == 2 && shape.rank() > 2 && checked_numel(shape) == stored.numel() && stored[0] == shape[0];
}

}  // namespace

std::string Scope::full_name(std::string_view name) const {
    return prefix_.empty() ? std::string(name) : str(prefix_, ".", name);
}

Tensor Scope::tensor(std::string_view name, const Shape& shape) const {
    return loader_->load(full_name(name), shape, /*required=*/true);
}

Tensor Scope::optional(std::string_view name, const Shape& shape) const {
    return loader_->load(full_name(name), shape, /*required=*/false);
}

WeightRows Scope::rows(std::string_view name, const Shape& shape) const {
    return loader_->load_rows(full_name(name), shape);
}

LayerWeights Scope::weights(std::string_view name, const Shape& shape, OutputChannels channels) const {
    return loader_->load_weights(full_name(name), shape, channels);
}

bool Scope::has(std::string_view name) const { return loader_->find(full_name(name)) != nullptr; }

std::optional<Shape> Scope::shape_of(std::string_view name) const { return loader_->shape_of(full_name(name)); }

WeightLoader::WeightLoader(std::shared_ptr<const WeightFile> file, const NameMap& names, Reading reading)
    : file_(std::move(file)), names_(names), reading_(reading) {
    for (const WeightTensor& tensor : file_->tensors())
        for (const MappedName& mapped : map_name(names_, tensor.name)) add_part(mapped, tensor);
    for (auto& [name, entry] : entries_) complete(entry);
    attach_scales();
}

void WeightLoader::add_part(const MappedName& mapped, const WeightTensor& tensor) {
    Entry& entry = entries_[mapped.canonical];
    if (entry.parts.empty()) {
        order_.push_back(mapped.canonical);
        entry.parts.resize(static_cast<size_t>(mapped.stack_count));
        entry.layout = mapped.layout;
    }
    const auto position = static_cast<size_t>(mapped.position);
    if (position >= entry.parts.size() || entry.parts[position].tensor != nullptr)
        fail(file_->path(), ": several tensors stand for ", quote_name(mapped.canonical), ", one of them ",
             quote_name(tensor.name), ": the file mixes models");

    Part part{&tensor, tensor.shape, 0};
    const int dim = mapped.skip_count > 0 ? mapped.skip_dim : 0;
    if (mapped.skip_count > 0 || mapped.parts > 1) {
        if (dim >= part.shape.rank()) {
            entry.problem = str("has shape ", to_string(tensor.shape), ", which has no dimension to cut");
            entry.parts[position] = part;
            return;
        }
        for (int i = 0; i < dim; ++i)
            if (part.shape[i] != 1)
                entry.problem = str("has shape ", to_string(tensor.shape), ", expected a leading 1");
        int64_t inner = 1;
        for (int i = dim + 1; i < part.shape.rank(); ++i) inner *= part.shape[i];
        const int64_t rows = part.shape[dim] - mapped.skip_count;
        if (rows < 0 || rows % mapped.parts != 0)
            entry.problem = str("has ", part.shape[dim], " rows, which do not divide into ", mapped.parts, " parts");
        part.shape[dim] = std::max<int64_t>(rows, 0) / mapped.parts;
        part.first = (mapped.skip_count + part.shape[dim] * mapped.part) * inner;
    }
    entry.parts[position] = part;
}

// Works out the canonical shape and whether the parts fit together.
void WeightLoader::complete(Entry& entry) {
    if (!entry.problem.empty()) return;
    entry.shape = entry.parts.front().shape;
    for (size_t i = 0; i < entry.parts.size(); ++i) {
        const Part& part = entry.parts[i];
        if (part.tensor == nullptr) {
            entry.problem = str("lacks part ", i, " of ", entry.parts.size());
            return;
        }
        if (part.tensor->type == WeightType::unsupported) {
            entry.problem = str("has type ", part.tensor->type_name, ", which cannot be read");
            return;
        }
        const int64_t block = block_size(part.tensor->type);
        if (part.first % block != 0 || part.shape.numel() % block != 0) {
            entry.problem = str("has type ", part.tensor->type_name, ", which cannot be cut inside a block");
            return;
        }
        if (i == 0) continue;
        Shape expected = entry.parts.front().shape;
        if (part.shape.rank() == 0 || part.shape.rank() != expected.rank()) {
            entry.problem = "has parts of different shapes";
            return;
        }
        expected[0] = part.shape[0];
        if (!(part.shape == expected)) entry.problem = "has parts of different shapes";
        if (__builtin_add_overflow(entry.shape[0], part.shape[0], &entry.shape[0]) || !checked_numel(entry.shape))
            entry.problem = "has parts that are too large together";
    }
    entry.stored = entry.shape;
    if (!entry.layout || !entry.problem.empty()) return;
    if (const std::optional<Shape> turned = canonical_shape(*entry.layout, entry.stored))
        entry.shape = *turned;
    else
        entry.problem =
            str("has shape ", to_string(entry.stored), ", expected ", entry.layout->stored.size(), " dimensions");
}

// Scales belong to their codes and are no tensors of their own.
void WeightLoader::attach_scales() {
    std::unordered_set<std::string> attached;
    for (auto& [name, entry] : entries_) {
        const Part& part = entry.parts.front();
        if (!entry.problem.empty() || part.tensor->type != WeightType::i8) continue;
        const std::string scale_name = int8_scale_name(name);
        const auto found = entries_.find(scale_name);
        if (found == entries_.end()) {
            entry.problem = str("holds int8 codes, but the file has no scales ", quote_name(scale_name));
            continue;
        }
        const Entry& scales = found->second;
        attached.insert(scale_name);
        const bool whole = entry.parts.size() == 1 && part.shape == part.tensor->shape && is_in_order(entry);
        const bool fits = scales.problem.empty() && scales.parts.size() == 1 && is_in_order(scales) &&
                          scales.parts.front().tensor->type == WeightType::f32 &&
                          int8_channels(entry.shape, scales.shape);
        if (whole && fits)
            entry.scales = scales.parts.front().tensor;
        else
            entry.problem =
                str("holds int8 codes ", to_string(entry.shape), ", whose scales ", quote_name(scale_name),
                    " should be f32, one for each output channel, but have shape ", to_string(scales.shape));
    }
    for (const std::string& name : attached) entries_.erase(name);
    std::erase_if(order_, [&](const std::string& name) { return attached.contains(name); });
}

WeightLoader::Entry* WeightLoader::find(const std::string& name) {
    const auto found = entries_.find(name);
    if (found != entries_.end()) return &found->second;
    for (const AliasRule& rule : names_.aliases) {
        if (rule.name != name) continue;
        const auto same = entries_.find(std::string(rule.same_as));
        if (same != entries_.end()) return &same->second;
    }
    return nullptr;
}

// Null when there is no such tensor or it does not fit; what is wrong has then been noted.
WeightLoader::Entry* WeightLoader::find_fitting(const std::string& name, const Shape& shape, bool required) {
    Entry* entry = find(name);
    if (entry == nullptr) {
        if (required && reported_.insert(name).second) missing_.push_back({name, shape});
        return nullptr;
    }
    entry->used = true;
    if (!entry->problem.empty()) {
        if (reported_.insert(name).second) unreadable_.push_back(str(name, " ", entry->problem));
        return nullptr;
    }
    const bool flattened = names_.flattened && is_flattened(entry->shape, shape);
    if (!(entry->shape == shape) && !flattened) {
        if (reported_.insert(name).second)
            misshaped_.push_back(str(name, ": expected ", to_string(shape), ", found ", to_string(entry->shape)));
        return nullptr;
    }
    return entry;
}

Tensor WeightLoader::load(const std::string& name, const Shape& shape, bool required) {
    const Entry* entry = find_fitting(name, shape, required);
    if (entry == nullptr && !required && find(name) == nullptr) return Tensor();
    if (entry == nullptr || reading_ == Reading::shapes) return zeros(name, shape);
    make_resident(*entry);
    return read(*entry).reshape(shape);
}

WeightRows WeightLoader::load_rows(const std::string& name, const Shape& shape) {
    const Entry* entry = find_fitting(name, shape, /*required=*/true);
    if (entry != nullptr && entry->parts.size() == 1 && is_in_order(*entry) && entry->scales == nullptr) {
        const Part& part = entry->parts.front();
        if (shape[1] % block_size(part.tensor->type) == 0)
            return WeightRows(part.tensor->type, source_of(part), shape, file_);
    }
    const auto converted = std::make_shared<const Tensor>(load(name, shape, /*required=*/true));
    return WeightRows(WeightType::f32, converted->raw(), shape, converted);
}

LayerWeights WeightLoader::load_weights(const std::string& name, const Shape& shape, OutputChannels channels) {
    Entry* entry = find_fitting(name, shape, /*required=*/true);
    if (entry == nullptr) return zeros(name, shape);
    entry->product = {shape, channels};
    const bool coded = entry->scales != nullptr && int8_channels(shape, entry->scales->shape) == channels;
    if (!coded || reading_ == Reading::shapes) return load(name, shape, /*required=*/true);
    make_resident(*entry);
    return {Tensor::wrap_host(source_of(entry->parts.front()), shape, DType::i8, file_), read_scales(*entry)};
}

void WeightRows::read(int64_t row, float* to) const {
    if (row < 0 || row >= count()) fail("there is no row ", row, " in a table of ", count(), " rows");
    decode_to_f32(type_, data_ + row * width() / block_size(type_) * block_bytes(type_), width(), to);
}

// Weights are packed right after they are bound, so what was handed out a while ago will hardly be read again; if it
// is, its pages come back from the file. Keeps the resident size near that of the packed model.
void WeightLoader::make_resident(const Entry& entry) {
    constexpr size_t kResident = size_t{64} << 20;
    if (resident_bytes_ > kResident) {
        file_->release();
        resident_bytes_ = 0;
    }
    for (const Part& part : entry.parts) {
        file_->prefetch(*part.tensor);
        resident_bytes_ += part.tensor->bytes;
    }
}

bool WeightLoader::is_in_order(const Entry& entry) { return !entry.layout || keeps_order(*entry.layout); }

const uint8_t* WeightLoader::source_of(const Part& part) {
    const int64_t blocks = part.first / block_size(part.tensor->type);
    return part.tensor->data + blocks * block_bytes(part.tensor->type);
}

Tensor WeightLoader::read(const Entry& entry) const {
    const Part& front = entry.parts.front();
    const bool is_aligned = reinterpret_cast<uintptr_t>(source_of(front)) % alignof(float) == 0;
    if (entry.parts.size() == 1 && is_in_order(entry) && front.tensor->type == WeightType::f32 && is_aligned)
        return Tensor::wrap_host(source_of(front), entry.shape, DType::f32, file_);

    Tensor result = Tensor::host(entry.shape);
    auto* destination = result.data<float>();
    for (const Part& part : entry.parts) {
        decode_to_f32(part.tensor->type, source_of(part), part.shape.numel(), destination);
        destination += part.shape.numel();
    }
    if (entry.scales != nullptr) {
        const Tensor scales = read_scales(entry);
        apply_int8_scales(result.data<float>(), entry.shape, *int8_channels(entry.shape, scales.shape()),
                          scales.data<float>());
    }
    if (is_in_order(entry)) return result;
    Tensor turned = Tensor::host(entry.shape);
    reorder(*entry.layout, result.data<float>(), entry.stored, turned.data<float>());
    return turned;
}

Tensor WeightLoader::read_scales(const Entry& entry) const {
    Tensor scales = Tensor::host(entry.scales->shape);
    decode_to_f32(entry.scales->type, entry.scales->data, scales.numel(), scales.data<float>());
    return scales;
}

// Expected shapes come from a file's configuration, so they may be absurd. calloc hands out untouched zero pages:
// stand-ins for missing tensors cost no memory.
Tensor WeightLoader::zeros(const std::string& name, const Shape& shape) const {
    const std::optional<int64_t> count = checked_numel(shape);
    if (!count || *count > kMaxZeros) {
        finish("the model");  // what has been noted so far says more
        fail("the model's configuration asks for ", quote_name(name), " of shape ", to_string(shape),
             ", which is impossible");
    }
    void* memory = std::calloc(static_cast<size_t>(std::max<int64_t>(*count, 1)), sizeof(float));
    if (memory == nullptr) throw std::bad_alloc();
    return Tensor::wrap_host(memory, shape, DType::f32, std::shared_ptr<void>(memory, std::free));
}

std::vector<std::string> WeightLoader::used_names() const {
    std::vector<std::string> names;
    for (const std::string& name : order_)
        if (entries_.at(name).used) names.push_back(name);
    return names;
}

std::optional<Shape> WeightLoader::shape_of(const std::string& name) {
    const Entry* entry = find(name);
    if (entry == nullptr || !entry->problem.empty()) return std::nullopt;
    return entry->shape;
}

std::optional<WeightLoader::Product> WeightLoader::product(const std::string& name) {
    const Entry* entry = find(name);
    return entry == nullptr ? std::nullopt : entry->product;
}

std::optional<WeightTensor> WeightLoader::stored_scales(const std::string& name) {
    const Entry* entry = find(name);
    if (entry == nullptr || entry->scales == nullptr) return std::nullopt;
    return *entry->scales;
}

std::optional<WeightTensor> WeightLoader::stored(const std::string& name) {
    const Entry* entry = find(name);
    if (entry == nullptr || !entry->problem.empty() || entry->parts.size() != 1) return std::nullopt;
    if (entry->layout && !keeps_order(*entry->layout)) return std::nullopt;
    const Part& part = entry->parts.front();
    WeightTensor tensor = *part.tensor;
    tensor.shape = entry->shape;
    tensor.data = source_of(part);
    tensor.bytes = static_cast<size_t>(part.shape.numel() / block_size(tensor.type) * block_bytes(tensor.type));
    return tensor;
}

std::string WeightLoader::describe_missing(const std::string& name, const Shape& shape) const {
    std::string text = str(name, " ", to_string(shape));
    if (const std::optional<std::string> closest = closest_name(name, order_))
        text += str(" (closest: ", *closest, ")");
    return text;
}

std::vector<std::string> WeightLoader::left_over(const std::vector<IgnoreRule>& may_be_left) const {
    std::vector<std::string> names;
    for (const std::string& name : order_) {
        const bool expected = std::any_of(may_be_left.begin(), may_be_left.end(), [&](const IgnoreRule& rule) {
            return match_name(rule.pattern, name).has_value();
        });
        if (!entries_.at(name).used && !expected) names.push_back(name);
    }
    return names;
}

void WeightLoader::report(std::string_view what, const std::vector<IgnoreRule>* may_be_left) const {
    const std::vector<std::string> left = may_be_left != nullptr ? left_over(*may_be_left) : std::vector<std::string>();
    if (missing_.empty() && misshaped_.empty() && unreadable_.empty() && left.empty()) return;

    const auto as_is = [](const std::string& line) { return line; };
    std::string text =
        str("cannot load ", what, " from ", file_->path(), " (", file_->format(), ", ", names_.name, "):");
    append_list(text, missing_, "tensor is missing", "tensors are missing",
                [this](const Missing& item) { return describe_missing(item.name, item.shape); });
    append_list(text, misshaped_, "tensor has another shape", "tensors have another shape", as_is);
    append_list(text, unreadable_, "tensor cannot be read", "tensors cannot be read", as_is);
    append_list(text, left, "tensor is left over", "tensors are left over", as_is);
    fail(text);
}

}  // namespace sam3
