#include "weights/metadata.h"

#include "util/error.h"
#include "weights/quote_name.h"

#include <array>
#include <type_traits>

namespace sam3 {

namespace {

constexpr std::array<std::string_view, 13> kTypeNames{"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                      "bool", "string", "array", "u64", "i64", "f64"};

template <typename T>
constexpr bool is_number = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

[[noreturn]] void fail_type(std::string_view key, std::string_view expected, const MetadataValue& found) {
    fail("the file's metadata key ", quote_name(key), " should be ", expected, ", found ", type_name(found));
}

template <typename T>
std::optional<int64_t> to_int(T number) {
    if constexpr (std::is_same_v<T, uint64_t>) {
        if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    }
    return static_cast<int64_t>(number);
}

}  // namespace

size_t MetadataArray::size() const {
    return std::visit([](const auto& list) { return list.size(); }, items);
}

std::string_view type_name(const MetadataValue& value) { return kTypeNames[value.index()]; }

bool Metadata::add(std::string key, MetadataValue value) {
    if (!index_.emplace(key, entries_.size()).second) return false;
    entries_.emplace_back(std::move(key), std::move(value));
    return true;
}

const MetadataValue* Metadata::find(std::string_view key) const {
    const auto found = index_.find(std::string(key));
    return found == index_.end() ? nullptr : &entries_[found->second].second;
}

const MetadataValue& Metadata::at(std::string_view key) const {
    const MetadataValue* value = find(key);
    if (value == nullptr) fail("the file's metadata has no key ", quote_name(key));
    return *value;
}

int64_t Metadata::get_int(std::string_view key) const {
    const MetadataValue& value = at(key);
    return std::visit(
        [&](const auto& item) -> int64_t {
            using T = std::decay_t<decltype(item)>;
            if constexpr (is_number<T> && std::is_integral_v<T>) {
                if (const std::optional<int64_t> number = to_int(item)) return *number;
            }
            fail_type(key, "an integer", value);
        },
        value);
}

double Metadata::get_float(std::string_view key) const {
    const MetadataValue& value = at(key);
    return std::visit(
        [&](const auto& item) -> double {
            using T = std::decay_t<decltype(item)>;
            if constexpr (is_number<T>)
                return static_cast<double>(item);
            else
                fail_type(key, "a number", value);
        },
        value);
}

bool Metadata::get_bool(std::string_view key) const {
    const MetadataValue& value = at(key);
    if (const bool* flag = std::get_if<bool>(&value)) return *flag;
    fail_type(key, "a bool", value);
}

const std::string& Metadata::get_string(std::string_view key) const {
    const MetadataValue& value = at(key);
    if (const std::string* text = std::get_if<std::string>(&value)) return *text;
    fail_type(key, "a string", value);
}

std::vector<int64_t> Metadata::get_ints(std::string_view key) const {
    const MetadataValue& value = at(key);
    const MetadataArray* array = std::get_if<MetadataArray>(&value);
    if (array == nullptr) fail_type(key, "an array of integers", value);
    return std::visit(
        [&](const auto& list) {
            using T = typename std::decay_t<decltype(list)>::value_type;
            std::vector<int64_t> result;
            if constexpr (is_number<T> && std::is_integral_v<T>) {
                result.reserve(list.size());
                for (T item : list) {
                    const std::optional<int64_t> number = to_int(item);
                    if (!number) fail("a number in the metadata key ", quote_name(key), " is too large");
                    result.push_back(*number);
                }
            } else if (!list.empty()) {
                fail("the file's metadata key ", quote_name(key),
                     " should be an array of integers, found one of another type");
            }
            return result;
        },
        array->items);
}

std::vector<double> Metadata::get_floats(std::string_view key) const {
    const MetadataValue& value = at(key);
    const MetadataArray* array = std::get_if<MetadataArray>(&value);
    if (array == nullptr) fail_type(key, "an array of numbers", value);
    return std::visit(
        [&](const auto& list) {
            using T = typename std::decay_t<decltype(list)>::value_type;
            std::vector<double> result;
            if constexpr (is_number<T>) {
                for (T item : list) result.push_back(static_cast<double>(item));
            } else if (!list.empty()) {
                fail("the file's metadata key ", quote_name(key),
                     " should be an array of numbers, found one of another type");
            }
            return result;
        },
        array->items);
}

const std::vector<std::string>& Metadata::get_strings(std::string_view key) const {
    const MetadataValue& value = at(key);
    if (const MetadataArray* array = std::get_if<MetadataArray>(&value))
        if (const auto* list = std::get_if<std::vector<std::string>>(&array->items)) return *list;
    fail_type(key, "an array of strings", value);
}

}  // namespace sam3
