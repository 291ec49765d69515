#pragma once

#include "runtime/cpu/simd/simd.h"
#include "runtime/cpu/simd/vec.h"

namespace sam3::simd::SAM3_SIMD_VARIANT {

#define SAM3_SIMD_FUNCTION(name, parameters) void name parameters;
SAM3_FOR_EACH_SIMD_FUNCTION(SAM3_SIMD_FUNCTION)
#undef SAM3_SIMD_FUNCTION

}  // namespace sam3::simd::SAM3_SIMD_VARIANT
