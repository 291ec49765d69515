#pragma once

#include "weights/weight_type.h"

#include <string_view>
#include <vector>

// Which tensors keep more precision than the file as a whole, and why.
namespace sam3 {

struct TypeRule {
    std::string_view pattern;  // of canonical names, as in a NameMap
    WeightType least;          // f32, f16 or q8_0: nothing coarser
    std::string_view reason;
};
const std::vector<TypeRule>& type_rules();

// The type that a tensor of a file of type `wanted` is stored as.
WeightType stored_type(std::string_view canonical, const Shape& shape, WeightType wanted);

WeightType weight_type_by_name(std::string_view name);  // one that can be written; fails with the list
std::vector<std::string_view> writable_type_names();

}  // namespace sam3
