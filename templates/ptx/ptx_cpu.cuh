// SPDX-License-Identifier: MIT
// The CPU target: every function of ptx_sm75, sm80, sm89, sm90 and sm90a in plain C++, and the
// keywords that the host's compiler lacks. The threads of a block are fibres of one host thread;
// what needs more than one of them goes through the library's table (block/cpu_runtime.h).
#pragma once

#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__    __attribute__((noinline))
#define FTJ_DEVICE      static __device__ __forceinline__

#include "block/cpu_runtime.h"
#include "block/params.h"

namespace ftj {
namespace ptx {

// The block this host thread is running: all its fibres share it.
static thread_local ftj_cpu_block* running_block;

// ---- where a thread stands ---------------------------------------------------------------------
FTJ_DEVICE uint32_t thread_index() { return running_block->thread_index; }
FTJ_DEVICE uint32_t block_index() { return running_block->block_index; }
FTJ_DEVICE uint32_t num_blocks() { return running_block->num_blocks; }

// ---- shared memory -----------------------------------------------------------------------------
// A 32-bit shared address is an offset into the block's shared memory, past the base of its rank.
// The memory ends exactly where the kernel said, so that the sanitizers see every access past it,
// and every misaligned one.
FTJ_DEVICE unsigned char* dynamic_shared() { return running_block->shared; }
FTJ_DEVICE uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(pointer) -
                                 running_block->shared_origin);
}

struct alignas(16) Words4 {
    uint32_t w[4];
};
struct alignas(8) Words2 {
    uint32_t w[2];
};

template <class T>
FTJ_DEVICE T& shared_at(uint32_t address) {
    return *reinterpret_cast<T*>(running_block->shared_origin + address);
}

FTJ_DEVICE Words4 ld_shared_v4(uint32_t address) { return shared_at<Words4>(address); }
FTJ_DEVICE Words2 ld_shared_v2(uint32_t address) { return shared_at<Words2>(address); }
FTJ_DEVICE uint32_t ld_shared_u32(uint32_t address) { return shared_at<uint32_t>(address); }
FTJ_DEVICE uint32_t ld_shared_u16(uint32_t address) { return shared_at<uint16_t>(address); }
FTJ_DEVICE uint32_t ld_shared_u8(uint32_t address) { return shared_at<uint8_t>(address); }
FTJ_DEVICE float ld_shared_f32(uint32_t address) { return shared_at<float>(address); }

FTJ_DEVICE void st_shared_v4(uint32_t address, Words4 v) { shared_at<Words4>(address) = v; }
FTJ_DEVICE void st_shared_v2(uint32_t address, Words2 v) { shared_at<Words2>(address) = v; }
FTJ_DEVICE void st_shared_u32(uint32_t address, uint32_t v) { shared_at<uint32_t>(address) = v; }
FTJ_DEVICE void st_shared_u16(uint32_t address, uint32_t v) {
    shared_at<uint16_t>(address) = static_cast<uint16_t>(v);
}
FTJ_DEVICE void st_shared_u8(uint32_t address, uint32_t v) {
    shared_at<uint8_t>(address) = static_cast<uint8_t>(v);
}

// ---- cp.async ----------------------------------------------------------------------------------
// The bytes arrive at the wait and not before; until then the destination reads as 0xFF.
FTJ_DEVICE void cp_async_16(uint32_t shared, const void* global) {
    running_block->calls->copy_issue(running_block, shared, global, 16);
}
template <int to, int from>
FTJ_DEVICE void cp_async_16_past(uint32_t shared, const void* global) {
    cp_async_16(shared + to, static_cast<const unsigned char*>(global) + from);
}
FTJ_DEVICE void cp_async_8(uint32_t shared, const void* global) {
    running_block->calls->copy_issue(running_block, shared, global, 8);
}
FTJ_DEVICE void cp_async_4(uint32_t shared, const void* global) {
    running_block->calls->copy_issue(running_block, shared, global, 4);
}
template <uint32_t chunk>
FTJ_DEVICE void cp_async_of(uint32_t shared, const void* global, uint32_t bytes) {
    alignas(16) static const unsigned char zeros[16] = {};
    const void* from = bytes ? global : zeros;
    if constexpr (chunk == 16)
        cp_async_16(shared, from);
    else if constexpr (chunk == 8)
        cp_async_8(shared, from);
    else
        cp_async_4(shared, from);
}
FTJ_DEVICE void cp_async_of_line(uint32_t shared, const void* global, uint32_t bytes) {
    cp_async_of<16>(shared, global, bytes);
}
FTJ_DEVICE void cp_async_commit() { running_block->calls->copy_commit(running_block); }
template <int pending>
FTJ_DEVICE void cp_async_wait() {
    running_block->calls->copy_wait(running_block, pending);
}

// ---- global memory -----------------------------------------------------------------------------
// Blocks run on several host threads.
FTJ_DEVICE uint32_t atomic_add(uint32_t* address, uint32_t v) {
    return __atomic_fetch_add(address, v, __ATOMIC_RELAXED);
}
// What may be read before it is written is: every fourth block, whose number is `liar`, finds
// something else there. 0 for what is there to stay.
FTJ_DEVICE uint32_t ld_past_l1(const int32_t* global, uint32_t liar) {
    const bool lies = liar != 0 && block_index() % 4 == liar;
    return static_cast<uint32_t>(lies ? *global / 2 : *global);
}

}  // namespace ptx
}  // namespace ftj

// In this order: mma is made of both.
#include "ptx/ptx_cpu_float.cuh"
#include "ptx/ptx_cpu_warp.cuh"

#include "ptx/ptx_cpu_mma.cuh"

#include "ptx/ptx_cpu_group.cuh"

// The last line of a unit: what the library finds in the shared object.
#define FTJ_CPU_ENTRY(kernel, Params)                                                              \
    static void ftj_cpu_run(ftj_cpu_block* block, const void* params) {                            \
        ftj::ptx::running_block = block;                                                           \
        if (block->thread_index + block->cluster_rank == 0) /* it is the first to run */           \
            ftj::ptx::wgmma_reset();                                                               \
        kernel(*static_cast<const Params*>(params));                                               \
    }                                                                                              \
    extern "C" {                                                                                   \
    extern const ftj_cpu_entry ftj_cpu_kernel __attribute__((visibility("default")));              \
    const ftj_cpu_entry ftj_cpu_kernel = {FTJ_CPU_ABI, sizeof(Params), ftj_cpu_run};               \
    }
