#pragma once

#include "runtime/ops.h"

#include <string>

namespace sam3::cli {

// Writes every traced tensor into the folder as NAME.npy; a name that comes again (one phrase after another) becomes
// NAME.1.npy, NAME.2.npy.
void dump_tensors(Ops& ops, const std::string& folder);

}  // namespace sam3::cli
