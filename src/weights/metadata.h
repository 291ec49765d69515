#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace sam3 {

// An array of one element type; arrays of arrays nest. The alternatives stand in the order of GGUF's type numbers.
struct MetadataArray {
    std::variant<std::vector<uint8_t>, std::vector<int8_t>, std::vector<uint16_t>, std::vector<int16_t>,
                 std::vector<uint32_t>, std::vector<int32_t>, std::vector<float>, std::vector<bool>,
                 std::vector<std::string>, std::vector<MetadataArray>, std::vector<uint64_t>, std::vector<int64_t>,
                 std::vector<double>>
        items;

    size_t size() const;
};

// The alternatives stand in the order of GGUF's type numbers: index() is the number in the file.
using MetadataValue = std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float, bool, std::string,
                                   MetadataArray, uint64_t, int64_t, double>;

std::string_view type_name(const MetadataValue& value);

// Key -> value, in the order of the file. The get functions convert between number types as long as nothing is lost
// and fail with a sentence when a key is missing or holds something else.
class Metadata {
public:
    // False when the key is there already.
    bool add(std::string key, MetadataValue value);

    const std::vector<std::pair<std::string, MetadataValue>>& entries() const { return entries_; }
    const MetadataValue* find(std::string_view key) const;
    bool has(std::string_view key) const { return find(key) != nullptr; }

    int64_t get_int(std::string_view key) const;
    double get_float(std::string_view key) const;  // integers count as well
    bool get_bool(std::string_view key) const;
    const std::string& get_string(std::string_view key) const;
    std::vector<int64_t> get_ints(std::string_view key) const;
    std::vector<double> get_floats(std::string_view key) const;
    const std::vector<std::string>& get_strings(std::string_view key) const;

    // The fallback is for a missing key only; a value of the wrong type still fails.
    int64_t get_int(std::string_view key, int64_t fallback) const { return has(key) ? get_int(key) : fallback; }
    double get_float(std::string_view key, double fallback) const { return has(key) ? get_float(key) : fallback; }
    bool get_bool(std::string_view key, bool fallback) const { return has(key) ? get_bool(key) : fallback; }
    std::string get_string(std::string_view key, const std::string& fallback) const {
        return has(key) ? get_string(key) : fallback;
    }

private:
    const MetadataValue& at(std::string_view key) const;

    std::vector<std::pair<std::string, MetadataValue>> entries_;
    std::unordered_map<std::string, size_t> index_;
};

}  // namespace sam3
