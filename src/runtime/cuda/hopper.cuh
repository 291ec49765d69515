#pragma once

#include "runtime/cuda/mma.cuh"

#include <cuda.h>

// Hopper's barriers, bulk copies and descriptors, as functions.
namespace sam3::cuda {

// Built with -DSAM3_JITTER, warps sleep for up to 2 us around every barrier, each time for another while: answers must
// stay what they are, for whoever waits must not lean on who is usually first.
__device__ inline void jitter() {
#if defined(SAM3_JITTER)
    const unsigned place = (blockIdx.x * 32U + threadIdx.x / 32U) * 0x9E3779B9U;
    const unsigned mixed = (static_cast<unsigned>(clock()) ^ place) * 0x85EBCA6BU;
    __nanosleep(mixed >> 21);
#endif
}

__device__ inline void init_barrier(unsigned barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ inline void arrive(unsigned barrier) {
    jitter();
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}
__device__ inline void arrive_expecting(unsigned barrier, int bytes) {
    jitter();
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes) : "memory");
}
// Waits until the phase with this parity is over.
__device__ inline void wait_barrier(unsigned barrier, int parity) {
    asm volatile(
        "{\n.reg .pred done;\nagain:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n}\n" ::"r"(barrier),
        "r"(parity)
        : "memory");
    jitter();
}
// A place in a ring of stages, and the parity of the barriers there.
template <int kStages>
struct Turn {
    int stage = 0, parity = 0;

    __device__ void next() {
        if (++stage == kStages) {
            stage = 0;
            parity ^= 1;
        }
    }
    __device__ void skip(int stages) {  // not negative
        stage += stages;
        parity ^= stage / kStages % 2;
        stage %= kStages;
    }
};

__device__ inline void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory"); }

// A box of a tensor of five dimensions into shared memory; the barrier counts its bytes.
__device__ inline void copy_box(unsigned to, const CUtensorMap& map, unsigned barrier, int c0, int c1, int c2, int c3,
                                int c4) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], "
        "[%2];\n" ::"r"(to),
        "l"(&map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
        : "memory");
}

// The same into all blocks of a cluster that `blocks` names, one bit each: the same place and the same barrier in each.
__device__ inline void copy_box_to_cluster(unsigned to, const CUtensorMap& map, unsigned barrier, unsigned blocks,
                                           int c0, int c1, int c2, int c3, int c4) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
        "[%1, {%4, %5, %6, %7, %8}], [%2], %3;\n" ::"r"(to),
        "l"(&map), "r"(barrier), "h"(static_cast<unsigned short>(blocks)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
        : "memory");
}
// Pixels of images [N, H, W, C] that follow each other line by line, as many as the map says, from column c1 of line c2
// of image c3 on; what comes lies `down` lines below those.
__device__ inline void copy_pixels(unsigned to, const CUtensorMap& map, unsigned barrier, int c0, int c1, int c2,
                                   int c3, int down) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], "
        "[%1, {%3, %4, %5, %6}], [%2], {%7, %8};\n" ::"r"(to),
        "l"(&map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "h"(static_cast<unsigned short>(0)),
        "h"(static_cast<unsigned short>(down))
        : "memory");
}
// A box the other way. Groups of writes end in order; what a thread wrote to shared memory is shown to copies first.
__device__ inline void write_box(const CUtensorMap& map, unsigned from, int c0, int c1, int c2, int c3, int c4) {
    asm volatile(
        "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];\n" ::"l"(&map),
        "r"(from), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
        : "memory");
}
__device__ inline void commit_writes() { asm volatile("cp.async.bulk.commit_group;\n" ::: "memory"); }
// Until all but the last kLeft groups of this thread have been read from shared memory.
template <int kLeft>
__device__ inline void wait_until_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;\n" ::"n"(kLeft) : "memory");
}
__device__ inline void show_to_copies() { asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory"); }

// At the barrier in the same place of another block of the cluster.
__device__ inline void arrive_in_cluster(unsigned barrier, int block) {
    jitter();
    asm volatile(
        "{\n.reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(barrier),
        "r"(block)
        : "memory");
}

// Named barriers of a block: `threads` of them, those that wait and those that only arrive, complete one.
__device__ inline void wait_in_block(int barrier, int threads) {
    jitter();
    asm volatile("bar.sync %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
    jitter();
}
__device__ inline void arrive_in_block(int barrier, int threads) {
    jitter();
    asm volatile("bar.arrive %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}

// Blocks of a cluster: all of their threads wait for each other; what was written before is seen behind it.
__device__ inline void meet_cluster() {
    jitter();
    asm volatile(
        "barrier.cluster.arrive.release;\n"
        "barrier.cluster.wait.acquire;\n" ::
            : "memory");
}

// The same place in the shared memory of another block of the cluster.
__device__ inline unsigned address_in(unsigned address, int rank) {
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;\n" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}
__device__ inline float4 load4_from_cluster(unsigned address) {
    float4 x;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];\n"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "r"(address)
                 : "memory");
    return x;
}
__device__ inline float2 load2_from_cluster(unsigned address) {
    float2 x;
    asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];\n" : "=f"(x.x), "=f"(x.y) : "r"(address) : "memory");
    return x;
}
__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ inline void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
template <int kLeft>
__device__ inline void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kLeft) : "memory");
}

template <int kRegisters>
__device__ inline void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}

// A value that all threads of a warp have, said so that the compiler knows: it then keeps what follows from it once for
// a warp, where descriptions of matrices must be. Made by every thread, those are half of a loop's instructions.
template <typename T>
__device__ inline T uniform(T value) {
    return __shfl_sync(0xffffffffU, value, 0);
}
__device__ inline int warpgroup() { return uniform(static_cast<int>(threadIdx.x) / 128); }

// A matrix in shared memory as bulk copies leave it: rows of kRowBytes (64 or 128), shuffled in groups of eight rows.
// `step`: bytes between blocks of columns, for matrices that are wider than a row and used column by column; `group`:
// bytes from eight rows to the next eight. Another place is described by moved().
template <int kRowBytes>
__device__ inline uint64_t describe(unsigned address, int step = 16, int group = 8 * kRowBytes) {
    constexpr uint64_t kShuffle = kRowBytes == 128 ? 1 : 2;
    return (static_cast<uint64_t>(address & 0x3FFFFU) >> 4) | (static_cast<uint64_t>(step) >> 4 << 16) |
           (static_cast<uint64_t>(group) >> 4 << 32) | (kShuffle << 62);
}
__device__ inline uint64_t moved(uint64_t description, int bytes) { return description + bytes / 16; }

}  // namespace sam3::cuda
