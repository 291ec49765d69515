#pragma once

#include "runtime/kernels.h"

#include <string>

namespace sam3 {

// The precision of a layer's weights, by the layer's canonical name, where `asked` was chosen for the network: large
// products get it, what is small or sensitive stays f32. The table behind it says why.
Precision precision_policy(const std::string& name, Precision asked);

}  // namespace sam3
