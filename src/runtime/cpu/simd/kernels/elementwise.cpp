#include "runtime/cpu/simd/kernels/functions.h"
#include "runtime/cpu/simd/vec_math.h"

namespace sam3::simd::SAM3_SIMD_VARIANT {

#define SAM3_ELEMENTWISE(name)                                                   \
    void name(float* out, const float* in, int64_t n) {                          \
        int64_t i = 0;                                                           \
        for (; i + kLanes <= n; i += kLanes) store(out + i, name(load(in + i))); \
        if (i < n) store_first(out + i, name(load_first(in + i, n - i)), n - i); \
    }

SAM3_ELEMENTWISE(exp)
SAM3_ELEMENTWISE(tanh)
SAM3_ELEMENTWISE(sigmoid)
SAM3_ELEMENTWISE(silu)
SAM3_ELEMENTWISE(gelu)
SAM3_ELEMENTWISE(gelu_tanh)
SAM3_ELEMENTWISE(relu)

#undef SAM3_ELEMENTWISE

}  // namespace sam3::simd::SAM3_SIMD_VARIANT
