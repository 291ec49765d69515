#pragma once

#include "weights/weight_type.h"

#include <cstdint>
#include <string_view>

// The Python objects that PyTorch's pickles name, and what they say about a file.
namespace sam3 {

struct TorchType {
    std::string_view name;     // torch.float32
    std::string_view storage;  // torch.FloatStorage; empty: only as a name beside an untyped storage
    uint64_t bytes;
    WeightType type;
};

const TorchType* torch_type_with_name(std::string_view name);        // null: unknown
const TorchType* torch_type_with_storage(std::string_view storage);  // null: unknown

// Functions that build tensors, and a storage whose type is said elsewhere.
inline constexpr std::string_view kTorchTensor = "torch._utils._rebuild_tensor_v2";
inline constexpr std::string_view kTorchTypedTensor = "torch._utils._rebuild_tensor_v3";
inline constexpr std::string_view kTorchParameter = "torch._utils._rebuild_parameter";
inline constexpr std::string_view kTorchParameterWithState = "torch._utils._rebuild_parameter_with_state";
inline constexpr std::string_view kTorchUntypedStorage = "torch.storage.UntypedStorage";

// Whether a pickle may name this Python object: only these and the types, and a few that occur in what is passed over.
bool is_torch_global(std::string_view name);

}  // namespace sam3
