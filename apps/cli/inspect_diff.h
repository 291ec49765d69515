#pragma once

#include <string>

namespace sam3::cli {

// Prints what two model files have in common and where they differ: metadata, tensors, values. Tensors are compared by
// the names that the networks use, so a file may have another format or other names.
void print_difference(const std::string& first, const std::string& second, bool json);

}  // namespace sam3::cli
