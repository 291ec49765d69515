#include "runtime/cpu/simd/kernels/functions.h"

#define SAM3_TEXT_OF(x) #x
#define SAM3_TEXT(x) SAM3_TEXT_OF(x)

namespace sam3::simd::SAM3_SIMD_VARIANT {

extern const Table kTable;
const Table kTable = {SAM3_TEXT(SAM3_SIMD_VARIANT), kLanes,
#define SAM3_SIMD_FUNCTION(name, parameters) name,
                      SAM3_FOR_EACH_SIMD_FUNCTION(SAM3_SIMD_FUNCTION)
#undef SAM3_SIMD_FUNCTION
};

}  // namespace sam3::simd::SAM3_SIMD_VARIANT
