#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace sam3::cuda {

// Some of the library's products count their tiles in a few bytes, which it sets to zero just before: a step of its own
// in the way of each. In a captured graph all that lie in this memory, where each has a place of its own, are zeroed by
// one step at the beginning instead.
void reset_early(cudaGraph_t graph, void* memory, size_t bytes);

}  // namespace sam3::cuda
