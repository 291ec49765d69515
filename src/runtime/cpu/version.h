#pragma once

#include <string>

namespace sam3 {

// "2.6.3, CPU instructions up to avx512_core_vnni": the library that runs, not the one it was built with.
std::string onednn_version();

// Threads that a parallel region gets unless a session says otherwise.
int openmp_threads();

}  // namespace sam3
