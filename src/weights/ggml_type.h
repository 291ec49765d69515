#pragma once

#include "weights/weight_type.h"

#include <cstdint>
#include <string_view>

namespace sam3 {

// ggml's numbers for types of values, as GGUF and .ggml files have them.
struct GgmlType {
    uint32_t number;
    std::string_view name;
    WeightType type;
};

const GgmlType* find_ggml_type(uint32_t number);  // null: not one that can be read
const GgmlType* find_ggml_type(WeightType type);  // null: ggml has none (u8, bool)

}  // namespace sam3
