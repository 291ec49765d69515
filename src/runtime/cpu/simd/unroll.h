#pragma once

#include "runtime/cpu/simd/vec.h"

// SAM3_UNROLL(4, i, body) writes the body four times with i = 0, 1, 2, 3 as a constant. With constant indices an array
// of vectors stays in registers; after an ordinary loop the compiler may leave it on the stack.
namespace sam3::simd::SAM3_SIMD_VARIANT {

template <int I>
struct Index {};

template <int Count, int I = 0, typename Function>
SAM3_INLINE void unroll(const Function& f) {
    if constexpr (I < Count) {
        f(Index<I>{});
        unroll<Count, I + 1>(f);
    }
}

#define SAM3_UNROLL(count, index, ...) \
    unroll<count>([&]<int index>(Index<index>) __attribute__((always_inline)) { __VA_ARGS__; })

}  // namespace sam3::simd::SAM3_SIMD_VARIANT
