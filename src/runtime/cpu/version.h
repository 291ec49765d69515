#pragma once

#include <string>

namespace sam3 {

// Which variant of the operators this CPU runs: "avx512", "avx2" or "baseline".
std::string cpu_kernels();

// Threads that a parallel region gets unless a session says otherwise.
int openmp_threads();

}  // namespace sam3
