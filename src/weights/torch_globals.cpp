#include "weights/torch_globals.h"

#include <algorithm>
#include <array>

namespace sam3 {

namespace {

constexpr std::array<TorchType, 21> kTypes{{
    {"torch.float32", "torch.FloatStorage", 4, WeightType::f32},
    {"torch.float16", "torch.HalfStorage", 2, WeightType::f16},
    {"torch.bfloat16", "torch.BFloat16Storage", 2, WeightType::bf16},
    {"torch.float64", "torch.DoubleStorage", 8, WeightType::f64},
    {"torch.int8", "torch.CharStorage", 1, WeightType::i8},
    {"torch.uint8", "torch.ByteStorage", 1, WeightType::u8},
    {"torch.int16", "torch.ShortStorage", 2, WeightType::i16},
    {"torch.int32", "torch.IntStorage", 4, WeightType::i32},
    {"torch.int64", "torch.LongStorage", 8, WeightType::i64},
    {"torch.bool", "torch.BoolStorage", 1, WeightType::bool_},
    {"torch.complex64", "torch.ComplexFloatStorage", 8, WeightType::unsupported},
    {"torch.complex128", "torch.ComplexDoubleStorage", 16, WeightType::unsupported},
    {"torch.complex32", "", 4, WeightType::unsupported},
    {"torch.uint16", "", 2, WeightType::unsupported},
    {"torch.uint32", "", 4, WeightType::unsupported},
    {"torch.uint64", "", 8, WeightType::unsupported},
    {"torch.float8_e4m3fn", "", 1, WeightType::unsupported},
    {"torch.float8_e4m3fnuz", "", 1, WeightType::unsupported},
    {"torch.float8_e5m2", "", 1, WeightType::unsupported},
    {"torch.float8_e5m2fnuz", "", 1, WeightType::unsupported},
    {"torch.float8_e8m0fnu", "", 1, WeightType::unsupported},
}};

constexpr std::array<std::string_view, 11> kGlobals{
    kTorchTensor, kTorchTypedTensor, kTorchParameter, kTorchParameterWithState, kTorchUntypedStorage,
    "collections.OrderedDict",
    // In what is passed over:
    "builtins.set", "__builtin__.set", "_codecs.encode", "torch.Size", "torch.device"};

template <typename Matches>
const TorchType* find_type(const Matches& matches) {
    const auto* found = std::find_if(kTypes.begin(), kTypes.end(), matches);
    return found == kTypes.end() ? nullptr : found;
}

}  // namespace

const TorchType* torch_type_with_name(std::string_view name) {
    return find_type([name](const TorchType& type) { return type.name == name; });
}

const TorchType* torch_type_with_storage(std::string_view storage) {
    return find_type([storage](const TorchType& type) { return !storage.empty() && type.storage == storage; });
}

bool is_torch_global(std::string_view name) {
    return std::find(kGlobals.begin(), kGlobals.end(), name) != kGlobals.end() ||
           torch_type_with_name(name) != nullptr || torch_type_with_storage(name) != nullptr;
}

}  // namespace sam3
