#pragma once

#include "runtime/cuda/elements.cuh"

// Tensor-core instructions of Ampere and later, as functions.
namespace sam3::cuda {

__device__ inline unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

// Four bytes of shared memory.
__device__ inline void store_shared(unsigned to, unsigned value) {
    asm volatile("st.shared.b32 [%0], %1;\n" ::"r"(to), "r"(value));
}
__device__ inline unsigned load_shared(unsigned from) {
    unsigned value;
    asm volatile("ld.shared.b32 %0, [%1];\n" : "=r"(value) : "r"(from));
    return value;
}

__device__ inline uint4 load16_from_shared(unsigned address) {
    uint4 x;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "r"(address)
                 : "memory");
    return x;
}

// 16 bytes from global to shared memory, asynchronously; zeros where !valid.
__device__ inline void copy_async(unsigned to, const void* from, bool valid) {
    const int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
template <int kLeft>
__device__ inline void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(kLeft) : "memory");
}

// Four 8 x 8 matrices of 16-bit values; lane i gives the address of row i % 8 of matrix i / 8.
__device__ inline void load_matrices(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}
__device__ inline void load_matrices_transposed(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// sums [16, 8] += a [16, 16] * b [16, 8]
__device__ inline void multiply_add(float (&sums)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, "
        "%3};\n"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline unsigned pack(float low, float high) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&both);
}

// Two neighbouring results, with what is to be added where there is something.
template <typename Out>
__device__ inline void store_pair(Out* to, float a, float b) {
    if constexpr (sizeof(Out) == 4)
        *reinterpret_cast<float2*>(to) = {a, b};
    else
        *reinterpret_cast<unsigned*>(to) = pack(a, b);
}
template <typename Out>
__device__ inline void store_pair(Out* to, const Out* more, float a, float b) {
    if (more == nullptr) return store_pair(to, a, b);
    float2 r;
    if constexpr (sizeof(Out) == 4)
        r = *reinterpret_cast<const float2*>(more);
    else
        r = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(more));
    store_pair(to, a + r.x, b + r.y);
}

__device__ inline float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Where 16 bytes of a row of kChunks such pieces lie in shared memory: shuffled, so that eight rows of one column
// meet eight different banks.
template <int kChunks>
__device__ inline int swizzled(int row, int chunk) {
    constexpr int kRowsTogether = kChunks >= 8 ? 1 : 8 / kChunks;
    constexpr int kMask = kChunks >= 8 ? 7 : kChunks - 1;
    return row * kChunks + (chunk ^ ((row / kRowsTogether) & kMask));
}

}  // namespace sam3::cuda
