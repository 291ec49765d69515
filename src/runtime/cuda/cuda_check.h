#pragma once

#include "util/error.h"

#include <cuda_runtime.h>

namespace sam3::cuda {

inline void check(cudaError_t status, const char* what) {
    if (status != cudaSuccess) fail("CUDA: ", what, ": ", cudaGetErrorString(status));
}

}  // namespace sam3::cuda
