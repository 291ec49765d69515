#include "runtime/cpu/version.h"

#include "runtime/cpu/simd/simd.h"

#include <omp.h>

namespace sam3 {

std::string cpu_kernels() { return simd::table().name; }

int openmp_threads() { return omp_get_max_threads(); }

}  // namespace sam3
