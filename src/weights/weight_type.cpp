#include "weights/weight_type.h"

#include "util/checked.h"

#include <array>

namespace sam3 {

namespace {

struct TypeFacts {
    std::string_view name;
    int64_t block;
    int64_t bytes;
};

// In the order of WeightType.
constexpr std::array<TypeFacts, 19> kFacts{{
    {"f32", 1, 4},
    {"f16", 1, 2},
    {"bf16", 1, 2},
    {"f64", 1, 8},
    {"int8", 1, 1},
    {"u8", 1, 1},
    {"i16", 1, 2},
    {"i32", 1, 4},
    {"i64", 1, 8},
    {"bool", 1, 1},
    {"q4_0", 32, 2 + 16},
    {"q4_1", 32, 2 + 2 + 16},
    {"q5_0", 32, 2 + 4 + 16},
    {"q5_1", 32, 2 + 2 + 4 + 16},
    {"q8_0", 32, 2 + 32},
    {"q4_k", 256, 2 + 2 + 12 + 128},
    {"q5_k", 256, 2 + 2 + 12 + 32 + 128},
    {"q6_k", 256, 128 + 64 + 16 + 2},
    {"unsupported", 1, 0},
}};
static_assert(kFacts.size() == static_cast<size_t>(WeightType::unsupported) + 1);

const TypeFacts& facts(WeightType type) { return kFacts[static_cast<size_t>(type)]; }

}  // namespace

std::string_view name_of(WeightType type) { return facts(type).name; }
int64_t block_size(WeightType type) { return facts(type).block; }
int64_t block_bytes(WeightType type) { return facts(type).bytes; }
bool is_quantized(WeightType type) { return facts(type).block > 1; }

std::optional<int64_t> checked_numel(const Shape& shape) {
    // Zeros are left out of the product, so that [0, huge, huge] is refused like [1, huge, huge]: strides are
    // products of dimensions too.
    int64_t product = 1;
    bool empty = false;
    for (int64_t d : shape) {
        if (d < 0) return std::nullopt;
        if (d == 0) empty = true;
        if (d != 0 && __builtin_mul_overflow(product, d, &product)) return std::nullopt;
    }
    return empty ? 0 : product;
}

std::optional<uint64_t> checked_bytes(WeightType type, const Shape& shape) {
    const std::optional<int64_t> count = checked_numel(shape);
    if (!count || type == WeightType::unsupported) return std::nullopt;
    const int64_t block = block_size(type);
    if (block > 1 && (shape.rank() == 0 || shape[-1] % block != 0)) return std::nullopt;
    return checked_mul(static_cast<uint64_t>(*count / block), static_cast<uint64_t>(block_bytes(type)));
}

}  // namespace sam3
