#include "weights/ggml_type.h"

#include <algorithm>
#include <array>

namespace sam3 {

namespace {

constexpr std::array<GgmlType, 16> kTypes{{{0, "F32", WeightType::f32},
                                           {1, "F16", WeightType::f16},
                                           {2, "Q4_0", WeightType::q4_0},
                                           {3, "Q4_1", WeightType::q4_1},
                                           {6, "Q5_0", WeightType::q5_0},
                                           {7, "Q5_1", WeightType::q5_1},
                                           {8, "Q8_0", WeightType::q8_0},
                                           {12, "Q4_K", WeightType::q4_k},
                                           {13, "Q5_K", WeightType::q5_k},
                                           {14, "Q6_K", WeightType::q6_k},
                                           {24, "I8", WeightType::i8},
                                           {25, "I16", WeightType::i16},
                                           {26, "I32", WeightType::i32},
                                           {27, "I64", WeightType::i64},
                                           {28, "F64", WeightType::f64},
                                           {30, "BF16", WeightType::bf16}}};

template <typename Matches>
const GgmlType* find_type(const Matches& matches) {
    const auto* found = std::find_if(kTypes.begin(), kTypes.end(), matches);
    return found == kTypes.end() ? nullptr : found;
}

}  // namespace

const GgmlType* find_ggml_type(uint32_t number) {
    return find_type([number](const GgmlType& known) { return known.number == number; });
}

const GgmlType* find_ggml_type(WeightType type) {
    return find_type([type](const GgmlType& known) { return known.type == type; });
}

}  // namespace sam3
