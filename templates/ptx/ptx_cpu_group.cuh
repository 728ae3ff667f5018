// SPDX-License-Identifier: MIT
// The CPU target: mbarriers, bulk copies, clusters, barriers of some warps, and wgmma, as
// ptx_sm90.cuh and ptx_sm90a.cuh have them. Included by ptx_cpu.cuh.
//
// Products are made when they are waited for and not before, from what then lies in shared memory:
// a kernel that reads its results too early, or gives operands back too early, is wrong every time.
// They are summed like those of ptx_cpu_mma.cuh.
#pragma once

namespace ftj {
namespace ptx {

// ---- barriers ----------------------------------------------------------------------------------
FTJ_DEVICE void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
    running_block->calls->barrier_init(running_block, barrier, arrivals);
}
FTJ_DEVICE void mbarrier_arrive(uint32_t barrier, uint32_t count = 1) {
    for (uint32_t i = 0; i < count; i++)
        running_block->calls->barrier_arrive(running_block, barrier);
}
FTJ_DEVICE void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes) {
    running_block->calls->barrier_expect(running_block, barrier, bytes);
    mbarrier_arrive(barrier);
}
FTJ_DEVICE void mbarrier_wait(uint32_t barrier, uint32_t parity) {
    running_block->calls->barrier_wait(running_block, barrier, parity);
}
// The bytes arrive when the barrier is waited for and not before; until then the destination reads
// as 0xFF, so that a stage filled too early is wrong every time too.
FTJ_DEVICE void cp_async_bulk(uint32_t shared, const void* global, uint32_t bytes, uint32_t barrier,
                              uint64_t) {
    running_block->calls->bulk_copy(running_block, shared, global, bytes, barrier);
}
FTJ_DEVICE void cp_async_bulk(uint32_t shared, const void* global, uint32_t bytes,
                              uint32_t barrier) {
    cp_async_bulk(shared, global, bytes, barrier, 0);
}
// A box of rows of 128 bytes, chunk by chunk, in the 128-byte swizzle.
FTJ_DEVICE void cp_async_bulk_tensor(uint32_t shared, const void* map, uint32_t x, uint32_t y,
                                     uint32_t z, uint32_t w, uint32_t barrier) {
    alignas(16) static const unsigned char zeros[16] = {};
    const auto& tensor = *static_cast<const ftj_tensor*>(map);
    if (shared % 128 || tensor.box_dims != 64)
        __builtin_trap();
    for (uint32_t row = 0; row < tensor.box_slots; row++) {
        const uint64_t from = tensor.base + w * tensor.strides[2] + z * tensor.strides[1] +
                              (uint64_t(y) + row) * tensor.strides[0] + x * 2;
        const bool is_inside = x < tensor.dims && uint64_t(y) + row < tensor.slots &&
                               z < tensor.heads && w < tensor.pages;
        for (uint32_t chunk = 0; chunk < 8; chunk++) {
            const uint32_t to = shared + row * 128 + chunk * 16;
            cp_async_bulk(to ^ (to >> 7 & 7u) << 4,
                          is_inside ? reinterpret_cast<const unsigned char*>(from) + chunk * 16
                                    : zeros,
                          16, barrier);
        }
    }
}
FTJ_DEVICE uint64_t createpolicy_evict_first() { return 0; }
// Nothing is brought anywhere, but it must be there.
FTJ_DEVICE void prefetch_bulk_l2(const void* global, uint32_t bytes) {
    const auto* from = static_cast<const volatile unsigned char*>(global);
    if (bytes == 0 || bytes % 16 || reinterpret_cast<uint64_t>(global) % 16)
        __builtin_trap();
    static_cast<void>(from[0]), static_cast<void>(from[bytes - 1]);
}
// The copies come at once, which they may.
FTJ_DEVICE void cp_async_mbarrier_arrive(uint32_t barrier) {
    cp_async_commit();
    cp_async_wait<0>();
    mbarrier_arrive(barrier);
}
FTJ_DEVICE void sync_group(uint32_t id, uint32_t threads) {
    running_block->calls->sync_group(running_block, id, threads);
}
FTJ_DEVICE void fence_mbarrier_init() {}
FTJ_DEVICE void fence_proxy_async_shared() {}
// Kernels follow each other here.
FTJ_DEVICE void griddepcontrol_wait() {}
FTJ_DEVICE void griddepcontrol_launch_dependents() {}
template <int registers>
FTJ_DEVICE void setmaxnreg_dec() {}
template <int registers>
FTJ_DEVICE void setmaxnreg_inc() {}

// ---- clusters ----------------------------------------------------------------------------------
FTJ_DEVICE uint32_t cluster_blocks() { return running_block->cluster_blocks; }
FTJ_DEVICE uint32_t cluster_rank() { return running_block->cluster_rank; }
FTJ_DEVICE uint32_t peer_shared(uint32_t address) {
    return address ^ FTJ_CPU_SHARED_BASE(0u) ^ FTJ_CPU_SHARED_BASE(1u);
}
FTJ_DEVICE void sync_cluster() { running_block->calls->sync_cluster(running_block); }
FTJ_DEVICE void mbarrier_arrive_peer(uint32_t peer_barrier) {
    running_block->calls->peer_arrive(running_block, peer_barrier);
}
// As late as other bulk copies, and so from what then lies in this block's memory.
FTJ_DEVICE void bulk_copy_to_peer(uint32_t peer_to, uint32_t from, uint32_t bytes,
                                  uint32_t peer_barrier) {
    running_block->calls->peer_copy(running_block, peer_to, from, bytes, peer_barrier);
}
FTJ_DEVICE void st_async_u32(uint32_t peer_to, uint32_t value, uint32_t peer_barrier) {
    running_block->calls->peer_store(running_block, peer_to, value, peer_barrier);
}

// ---- wgmma -------------------------------------------------------------------------------------
// What a thread brings to a product, and a product that all have brought something to.
struct WgmmaOperand {
    float* d;
    uint32_t a[4];  // the operand, or in a[0] the low half of its descriptor
    uint32_t b;
    bool accumulate;
};
struct WgmmaProduct {
    WgmmaOperand threads[FTJ_CPU_GROUP];
    void (*run)(const WgmmaProduct&);
    uint32_t group;  // commits before it
};
struct WgmmaQueue {
    static constexpr uint32_t capacity = 64;
    WgmmaProduct products[capacity];
    uint32_t count;
    uint32_t commits;
};
// One for each warpgroup of the block, or of the cluster, that this host thread runs.
static thread_local WgmmaQueue wgmma_queues[FTJ_CPU_MAX_GROUPS];

static void wgmma_reset() {
    for (WgmmaQueue& queue : wgmma_queues)
        queue.count = queue.commits = 0;
}
FTJ_DEVICE WgmmaQueue& wgmma_queue() {
    return wgmma_queues[running_block->first_group + thread_index() / FTJ_CPU_GROUP];
}

template <class Element>
struct Wgmma {
    // A 16-bit value at a shared address before the swizzle: 128 bytes a row, groups of 8 rows.
    static float value(uint32_t address) {
        const uint32_t swizzled = address ^ (address >> 7 & 7u) << 4;
        const MmaWords word = {shared_at<uint16_t>(swizzled)};
        return Element::widen(word)[0];
    }
    static uint32_t start(uint32_t descriptor) {
        return FTJ_CPU_SHARED_BASE(cluster_rank()) + ((descriptor & 0x3fffu) << 4);
    }

    // Row `row`, and k, of a matrix with k along its rows.
    static float along_k(uint32_t descriptor, int row, int k) {
        return value(start(descriptor) + row / 8 * 1024 + row % 8 * 128 + k * 2);
    }
    // k, and column `n`, of a matrix with n along its rows.
    static float along_n(uint32_t descriptor, int k, int n) {
        const uint32_t leading = (descriptor >> 16 & 0x3fffu) << 4;
        return value(start(descriptor) + n / 64 * leading + k / 8 * 1024 + k % 8 * 128 +
                     n % 64 * 2);
    }

    template <int n, bool a_in_registers>
    static void run(const WgmmaProduct& product) {
        float b[16][n];
        for (int k = 0; k < 16; k++) {
            for (int j = 0; j < n; j++)
                b[k][j] = a_in_registers ? along_n(product.threads[0].b, k, j)
                                         : along_k(product.threads[0].b, j, k);
        }
        for (int m = 0; m < 64; m++) {
            float a[16], d[n];
            const WgmmaOperand* row = product.threads + m / 16 * 32 + m % 8 * 4;
            const int half = m % 16 / 8;
            for (int k = 0; k < 16; k++) {
                const uint32_t word = row[k % 8 / 2].a[half + k / 8 * 2];
                const MmaWords bits = {word >> k % 2 * 16 & 0xffffu};
                a[k] = a_in_registers ? Element::widen(bits)[0] : along_k(row[0].a[0], m, k);
            }
            for (int j = 0; j < n; j++)
                d[j] = row[0].accumulate ? row[j % 8 / 2].d[j / 8 * 4 + half * 2 + j % 2] : 0.0f;
            for (int k = 0; k < 16; k++) {
                for (int j = 0; j < n; j++)
                    d[j] += a[k] * b[k][j];
            }
            for (int j = 0; j < n; j++)
                row[j % 8 / 2].d[j / 8 * 4 + half * 2 + j % 2] = d[j];
        }
    }

    template <int n, bool a_in_registers>
    static void issue(void* const* operands) {
        WgmmaQueue& queue = wgmma_queue();
        if (queue.count == WgmmaQueue::capacity)
            __builtin_trap();
        WgmmaProduct& product = queue.products[queue.count++];
        for (int i = 0; i < FTJ_CPU_GROUP; i++)
            product.threads[i] = *static_cast<const WgmmaOperand*>(operands[i]);
        product.run = run<n, a_in_registers>;
        product.group = queue.commits;
    }
};

static void wgmma_note_commit(void* const*) { wgmma_queue().commits++; }

template <int pending>
static void wgmma_make(void* const*) {
    WgmmaQueue& queue = wgmma_queue();
    uint32_t made = 0;
    while (made < queue.count && queue.products[made].group + pending < queue.commits) {
        queue.products[made].run(queue.products[made]);
        made++;
    }
    for (uint32_t i = made; i < queue.count; i++)
        queue.products[i - made] = queue.products[i];
    queue.count -= made;
}

FTJ_DEVICE void group_collective(const char* name, ftj_cpu_group_compute compute,
                                 void* operand = nullptr) {
    running_block->calls->group_collective(running_block, name, compute, operand);
}

FTJ_DEVICE void wgmma_fence() {}
FTJ_DEVICE void wgmma_commit() { group_collective("wgmma_commit", wgmma_note_commit); }
template <int pending>
FTJ_DEVICE void wgmma_wait() {
    group_collective("wgmma_wait", wgmma_make<pending>);
}
template <int count>
FTJ_DEVICE void wgmma_keep(float (&)[count]) {}
template <int count>
FTJ_DEVICE void wgmma_keep(uint32_t (&)[count]) {}

// Over k of 64: four products of 16, whose operands lie so far apart as the swizzle has them.
template <class Element, int n>
FTJ_DEVICE void wgmma_ss(float (&d)[n / 2], uint32_t a, uint32_t b, bool accumulate) {
    for (uint32_t step = 0; step < 4; step++) {
        WgmmaOperand operand = {d, {a + 2 * step}, b + 2 * step, accumulate || step > 0};
        group_collective("wgmma_ss", Wgmma<Element>::template issue<n, false>, &operand);
    }
}
template <class Element, int n>
FTJ_DEVICE void wgmma_rs(float (&d)[n / 2], const uint32_t* a, uint32_t b) {
    for (uint32_t step = 0; step < 4; step++, a += 4) {
        WgmmaOperand operand = {d, {a[0], a[1], a[2], a[3]}, b + 128 * step, true};
        group_collective("wgmma_rs", Wgmma<Element>::template issue<n, true>, &operand);
    }
}
template <int n>
FTJ_DEVICE void wgmma_ss_k64_f16(float (&d)[n / 2], uint32_t a, uint32_t b, bool accumulate) {
    wgmma_ss<MmaF16, n>(d, a, b, accumulate);
}
template <int n>
FTJ_DEVICE void wgmma_ss_k64_bf16(float (&d)[n / 2], uint32_t a, uint32_t b, bool accumulate) {
    wgmma_ss<MmaBf16, n>(d, a, b, accumulate);
}
template <int n>
FTJ_DEVICE void wgmma_rs_k64_f16(float (&d)[n / 2], const uint32_t* a, uint32_t b) {
    wgmma_rs<MmaF16, n>(d, a, b);
}
template <int n>
FTJ_DEVICE void wgmma_rs_k64_bf16(float (&d)[n / 2], const uint32_t* a, uint32_t b) {
    wgmma_rs<MmaBf16, n>(d, a, b);
}

}  // namespace ptx
}  // namespace ftj
