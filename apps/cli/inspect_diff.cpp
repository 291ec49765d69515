#include "inspect_diff.h"

#include "command.h"
#include "engine/model_registry.h"
#include "metadata_text.h"
#include "util/error.h"
#include "weights/binder.h"
#include "weights/metadata_json.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

namespace sam3::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kListed = 10;  // of each kind of difference, in the text

struct Side {
    std::shared_ptr<const WeightFile> file;
    std::unique_ptr<WeightLoader> loader;
};

Side open(const std::string& path) {
    Side side{open_weight_file(path), nullptr};
    const NameMap* names = &identity_name_map();
    try {
        names = &name_map_of(*side.file);
    } catch (const Error&) {
        // Not a model that is known: names are compared as they are.
    }
    side.loader = std::make_unique<WeightLoader>(side.file, *names);
    return side;
}

std::string type_of(Side& side, const std::string& name) {
    const auto stored = side.loader->stored(name);
    return stored ? std::string(name_of(stored->type)) : "joined";
}

struct Change {
    std::string name, types;  // "f16 -> q8_0"
    double relative = 0;      // root of the mean square of the difference, in parts of that of the first
    double largest = 0;       // difference of two values
};

struct Difference {
    std::vector<std::string> metadata;                         // sentences
    std::vector<std::string> only_first, only_second, shapes;  // names; sentences
    std::vector<Change> changes;                               // tensors whose values differ, worst first
    size_t equal = 0;                                          // tensors
};

void compare_metadata(const Metadata& first, const Metadata& second, Difference& out) {
    for (const auto& [key, value] : first.entries()) {
        const MetadataValue* other = second.find(key);
        const std::string text = metadata_text(value);
        if (other == nullptr)
            out.metadata.push_back(str(key, " = ", text, " only in the first"));
        else if (to_json(value) != to_json(*other))
            out.metadata.push_back(str(key, " = ", text, " in the first, ", metadata_text(*other), " in the second"));
    }
    for (const auto& [key, value] : second.entries())
        if (!first.has(key)) out.metadata.push_back(str(key, " = ", metadata_text(value), " only in the second"));
}

std::optional<Change> compare_values(const Tensor& a, const Tensor& b) {
    double squares = 0, errors = 0, largest = 0;
    const float *x = a.data<float>(), *y = b.data<float>();
    bool equal = true;
    for (int64_t i = 0; i < a.numel(); ++i) {
        const double difference = static_cast<double>(y[i]) - static_cast<double>(x[i]);
        equal = equal && (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i])));
        squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
        errors += difference * difference;
        largest = std::max(largest, std::abs(difference));
    }
    if (equal) return std::nullopt;
    return Change{"", "", std::sqrt(errors / std::max(squares, 1e-300)), largest};
}

void compare_tensors(Side& first, Side& second, Difference& out) {
    for (const std::string& name : first.loader->names()) {
        const auto a = first.loader->shape_of(name), b = second.loader->shape_of(name);
        if (!a || !b) {
            out.only_first.push_back(name);
            continue;
        }
        if (a->numel() != b->numel() || a->rank() == 0 || b->rank() == 0 || (*a)[0] != (*b)[0]) {
            out.shapes.push_back(str(name, ": ", to_string(*a), " in the first, ", to_string(*b), " in the second"));
            continue;
        }
        std::optional<Change> change =
            compare_values(first.loader->root().tensor(name, *a), second.loader->root().tensor(name, *b));
        if (!change) {
            ++out.equal;
            continue;
        }
        change->name = name;
        change->types = type_of(first, name) + " -> " + type_of(second, name);
        out.changes.push_back(std::move(*change));
    }
    for (const std::string& name : second.loader->names())
        if (!first.loader->shape_of(name)) out.only_second.push_back(name);
    std::stable_sort(out.changes.begin(), out.changes.end(),
                     [](const Change& a, const Change& b) { return a.relative > b.relative; });
}

void print_list(const char* title, const std::vector<std::string>& items) {
    if (items.empty()) return;
    std::cout << title << ": " << items.size() << "\n";
    for (size_t i = 0; i < std::min(items.size(), kListed); ++i) std::cout << "  " << printable(items[i]) << "\n";
    if (items.size() > kListed) std::cout << "  and " << items.size() - kListed << " more\n";
}

void print_text(const Difference& difference) {
    print_list("metadata that differs", difference.metadata);
    print_list("tensors only in the first", difference.only_first);
    print_list("tensors only in the second", difference.only_second);
    print_list("tensors of another shape", difference.shapes);
    std::cout << "tensors with equal values: " << difference.equal << "\n";
    std::cout << "tensors with other values: " << difference.changes.size() << "\n";
    if (difference.changes.empty()) return;
    std::cout << "  relative     largest  types             name\n";
    for (size_t i = 0; i < std::min(difference.changes.size(), kListed); ++i) {
        const Change& change = difference.changes[i];
        std::cout << std::scientific << std::setprecision(2) << std::setw(10) << change.relative << std::setw(12)
                  << change.largest << "  " << std::left << std::setw(18) << change.types << std::right
                  << printable(change.name) << "\n";
    }
    if (difference.changes.size() > kListed) std::cout << "  and " << difference.changes.size() - kListed << " more\n";
}

void print_json(const Difference& difference) {
    Json out = {{"metadata", difference.metadata},
                {"only_in_first", difference.only_first},
                {"only_in_second", difference.only_second},
                {"other_shape", difference.shapes},
                {"equal", difference.equal},
                {"changed", Json::array()}};
    for (const Change& change : difference.changes)
        out["changed"].push_back({{"name", change.name},
                                  {"types", change.types},
                                  {"relative_rms", change.relative},
                                  {"largest", change.largest}});
    std::cout << out.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

}  // namespace

void print_difference(const std::string& first, const std::string& second, bool json) {
    Side a = open(first), b = open(second);
    Difference difference;
    compare_metadata(a.file->metadata(), b.file->metadata(), difference);
    compare_tensors(a, b, difference);
    json ? print_json(difference) : print_text(difference);
}

}  // namespace sam3::cli
