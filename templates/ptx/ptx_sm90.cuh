// SPDX-License-Identifier: MIT
// What sm_90 adds: bulk copies into shared memory, counted by mbarriers; and clusters of two
// blocks, each of which reaches the other's shared memory.
#pragma once
#include "ptx/ptx_sm89.cuh"

#if __CUDA_ARCH__ < 900
#error "ptx_sm90.cuh needs sm_90"
#endif

namespace ftj {
namespace ptx {

// fence.mbarrier_init: the barriers are seen by bulk copies too. PTX ISA 8.0.
FTJ_DEVICE void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}
// mbarrier.arrive: so many of the arrivals of the phase. PTX ISA 8.0.
FTJ_DEVICE void mbarrier_arrive(uint32_t barrier, uint32_t count) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(barrier), "r"(count)
                 : "memory");
}
// mbarrier.arrive.expect_tx: arrive, and let the phase wait for that many bytes. PTX ISA 8.0.
FTJ_DEVICE void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(barrier), "r"(bytes)
                 : "memory");
}
// barrier.sync: the first `threads` to arrive at barrier `id` (1 to 15) meet there.
FTJ_DEVICE void sync_group(uint32_t id, uint32_t threads) {
    asm volatile("bar.sync %0, %1;" : : "r"(id), "r"(threads) : "memory");
}

// griddepcontrol.wait: the grid before this one in the stream has ended and its writes are seen.
// PTX ISA 7.8.
FTJ_DEVICE void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;" : : : "memory"); }
// griddepcontrol.launch_dependents: the next grid may start once every block has said so. PTX ISA
// 7.8.
FTJ_DEVICE void griddepcontrol_launch_dependents() {
    asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
}

// createpolicy: what is read with it leaves L2 first. PTX ISA 7.4.
FTJ_DEVICE uint64_t createpolicy_evict_first() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
// cp.async.bulk: `bytes`, a multiple of 16 between 16-byte boundaries, counted by the barrier. PTX
// ISA 8.0.
FTJ_DEVICE void cp_async_bulk(uint32_t shared, const void* global, uint32_t bytes, uint32_t barrier,
                              uint64_t policy) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1], %2, [%3], %4;"
                 :
                 : "r"(shared), "l"(global), "r"(bytes), "r"(barrier), "l"(policy)
                 : "memory");
}
// The same for what will be read again.
FTJ_DEVICE void cp_async_bulk(uint32_t shared, const void* global, uint32_t bytes,
                              uint32_t barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];"
                 :
                 : "r"(shared), "l"(global), "r"(bytes), "r"(barrier)
                 : "memory");
}
// cp.async.bulk.prefetch.L2: memory's, of so many bytes likewise, come to the L2. PTX ISA 8.0.
FTJ_DEVICE void prefetch_bulk_l2(const void* global, uint32_t bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;"
                 :
                 : "l"(global), "r"(bytes)
                 : "memory");
}
// cp.async.bulk.tensor: the box at these coordinates of a tensor of four dimensions, innermost
// first, swizzled as its map says and counted by the barrier; what lies outside is zeros. PTX ISA
// 8.0.
FTJ_DEVICE void cp_async_bulk_tensor(uint32_t shared, const void* map, uint32_t x, uint32_t y,
                                     uint32_t z, uint32_t w, uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5}], [%6];"
                 :
                 : "r"(shared), "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier)
                 : "memory");
}
// elect.sync: true in one lane of a warp, all of which are here. PTX ISA 8.0.
FTJ_DEVICE bool elect_lane() {
    uint32_t is_elected = 0;
    asm volatile("{\n"
                 ".reg .pred elected;\n"
                 "elect.sync _|elected, 0xffffffff;\n"
                 "@elected mov.u32 %0, 1;\n"
                 "}"
                 : "+r"(is_elected));
    return is_elected != 0;
}
// stmatrix.m8n8.x4.b16: four 8 x 8 matrices of 16-bit values. Lane (g, c) has columns 2c and 2c + 1
// of row g of each; lane 8 * m + r has the address of row r of matrix m, 16 bytes. PTX ISA 7.8.
FTJ_DEVICE void stmatrix(uint32_t address, const Words4& v) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 :
                 : "r"(address), "r"(v.w[0]), "r"(v.w[1]), "r"(v.w[2]), "r"(v.w[3])
                 : "memory");
}
// fence.proxy.async: ordinary stores to shared memory come before later bulk copies. PTX ISA 8.0.
FTJ_DEVICE void fence_proxy_async_shared() {
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

// ---- clusters ----------------------------------------------------------------------------------
// The blocks 2 i and 2 i + 1 of a launch of clusters run side by side, on SMs of their own. An
// address of the other's shared memory serves only the functions here that say so. Of the second,
// the addresses of its own have its rank in bit 24: they fit no descriptor as they are.

// %cluster_nctarank: the blocks of a cluster, 2, or 1 in a launch without. PTX ISA 7.8.
FTJ_DEVICE uint32_t cluster_blocks() {
    uint32_t blocks;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    return blocks;
}

// %cluster_ctarank: which of the two this block is. PTX ISA 7.8.
FTJ_DEVICE uint32_t cluster_rank() {
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
// mapa: where the other block has what this one has at a shared address. PTX ISA 7.8.
FTJ_DEVICE uint32_t peer_shared(uint32_t address) {
    uint32_t peer_address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(peer_address)
        : "r"(address), "r"(cluster_rank() ^ 1));
    return peer_address;
}
// barrier.cluster: all threads of both blocks meet here, but those that have left the kernel.
// Before it neither may reach into the other, which may not have begun; without one at the end it
// may have left, and its memory be another block's. PTX ISA 7.8.
FTJ_DEVICE void sync_cluster() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" : : : "memory");
}
// mbarrier.arrive: one of the arrivals at a barrier of the other block. It tells that this block's
// reads of its own shared memory are done, so that the other's copies may overwrite it. Without
// .release.cluster, which would make ordinary writes of this thread known to the other block too:
// that is a MEMBAR.GPU, and what goes to the other block goes by copies that its barriers count.
// PTX ISA 8.0.
FTJ_DEVICE void mbarrier_arrive_peer(uint32_t peer_barrier) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" : : "r"(peer_barrier) : "memory");
}
// cp.async.bulk from this block's shared memory to the other's, counted by a barrier of the
// other's: `bytes` as above. What it reads was written before a fence_proxy_async_shared(), and
// stays until the other block has said that the bytes have come. PTX ISA 8.0.
FTJ_DEVICE void bulk_copy_to_peer(uint32_t peer_to, uint32_t from, uint32_t bytes,
                                  uint32_t peer_barrier) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];"
                 :
                 : "r"(peer_to), "r"(from), "r"(bytes), "r"(peer_barrier)
                 : "memory");
}
// st.async: the same of one word, which a register has: 4 bytes to the barrier. PTX ISA 8.1.
FTJ_DEVICE void st_async_u32(uint32_t peer_to, uint32_t value, uint32_t peer_barrier) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
                 :
                 : "r"(peer_to), "r"(value), "r"(peer_barrier)
                 : "memory");
}

}  // namespace ptx
}  // namespace ftj
