/* SPDX-License-Identifier: MIT */
/*
 * A kernel of clusters of two blocks of 128 threads, whose blocks send each other tiles through
 * rings of three stages: run on the CPU target, compiled for a GPU, and run there.
 *
 * Warp 0 of a block sends: it fills a stage of its own, and copies it to the other block when that
 * has said three times, once a warp that reads, that the stage there is free. Its own is, by then.
 */
#ifndef FTJ_TESTS_RING_KERNEL_H
#define FTJ_TESTS_RING_KERNEL_H

#include <stdint.h>

#define RING_THREADS    128
#define RING_SMEM_BYTES (2 * 3 * 512 + 64 + 64)
#define RING_ROUNDS     1000

/* thread, block and out are as tests/unit/cpu_kernel.h has them. */
#define RING_BODY                                                                                  \
    "constexpr uint32_t stages = 3, bytes = 512, rounds = 1000;\n"                                 \
    "constexpr uint32_t sent = stages * bytes, words = 2 * stages * bytes;\n"                      \
    "constexpr uint32_t full = words + 64, free = full + 8 * stages;\n"                            \
    "const uint32_t base = ptx::shared_address(ptx::dynamic_shared());\n"                          \
    "const uint32_t warp = thread / 32, lane = thread % 32;\n"                                     \
    "if (thread == 0) {\n"                                                                         \
    "    for (uint32_t i = 0; i < stages; i++) {\n"                                                \
    "        ptx::mbarrier_init(base + full + 8 * i, 1);\n"                                        \
    "        ptx::mbarrier_init(base + free + 8 * i, 3);\n"                                        \
    "        ptx::mbarrier_arrive_expect_tx(base + full + 8 * i, bytes + 4);\n"                    \
    "    }\n"                                                                                      \
    "    ptx::fence_mbarrier_init();\n"                                                            \
    "}\n"                                                                                          \
    "ptx::sync_cluster();\n"                                                                       \
    "uint32_t stage = 0, parity = 0, sum = 0;\n"                                                   \
    "for (uint32_t round = 0; round < rounds; round++) {\n"                                        \
    "    const uint32_t at = base + stage * bytes;\n"                                              \
    "    if (warp == 0) {\n"                                                                       \
    "        ptx::mbarrier_wait(base + free + 8 * stage, parity ^ 1);\n"                           \
    "        const uint32_t value = block * 7 + round * 3 + lane;\n"                               \
    "        for (uint32_t i = 0; i < 4; i++)\n"                                                   \
    "            ptx::st_shared_u32(at + sent + 128 * i + 4 * lane, value + 5 * i);\n"             \
    "        ptx::fence_proxy_async_shared();\n"                                                   \
    "        ptx::sync_warp();\n"                                                                  \
    "        if (lane == 0) {\n"                                                                   \
    "            const uint32_t barrier = ptx::peer_shared(base + full + 8 * stage);\n"            \
    "            ptx::bulk_copy_to_peer(ptx::peer_shared(at), at + sent, bytes, barrier);\n"       \
    "            ptx::st_async_u32(ptx::peer_shared(base + words + 4 * stage), round, barrier);\n" \
    "        }\n"                                                                                  \
    "    } else {\n"                                                                               \
    "        ptx::mbarrier_wait(base + full + 8 * stage, parity);\n"                               \
    "        for (uint32_t i = 0; i < 4; i++)\n"                                                   \
    "            sum += ptx::ld_shared_u32(at + 128 * i + 4 * lane) * (round + i + 1);\n"          \
    "        sum ^= ptx::ld_shared_u32(base + words + 4 * stage);\n"                               \
    "        ptx::sync_warp();\n"                                                                  \
    "        if (lane == 0) {\n"                                                                   \
    "            if (warp == 1)\n"                                                                 \
    "                ptx::mbarrier_arrive_expect_tx(base + full + 8 * stage, bytes + 4);\n"        \
    "            ptx::mbarrier_arrive_peer(ptx::peer_shared(base + free + 8 * stage));\n"          \
    "        }\n"                                                                                  \
    "    }\n"                                                                                      \
    "    stage = stage + 1 < stages ? stage + 1 : 0;\n"                                            \
    "    parity ^= stage == 0;\n"                                                                  \
    "}\n"                                                                                          \
    "ptx::sync_cluster();\n"                                                                       \
    "out[block * 128 + thread] = warp == 0 ? ptx::cluster_rank() : sum;\n"

/* The whole unit for a GPU. */
#define RING_UNIT                                                                                  \
    "#include \"ptx/ptx_sm90.cuh\"\n"                                                              \
    "#include \"block/types.cuh\"\n"                                                               \
    "using namespace ftj;\n"                                                                       \
    "struct Params { uint64_t out; };\n"                                                           \
    "extern \"C\" __global__ __launch_bounds__(128)\n"                                             \
    "void ftj_ring(const __grid_constant__ Params params) {\n"                                     \
    "    uint32_t* const out = pointer<uint32_t>(params.out);\n"                                   \
    "    const uint32_t thread = ptx::thread_index();\n"                                           \
    "    const uint32_t block = ptx::block_index();\n" RING_BODY "}\n"

/* What a thread of a block leaves in `out`. */
static inline uint32_t ring_expected(uint32_t block, uint32_t thread)
{
    uint32_t sum = 0;
    if (thread < 32)
        return block % 2;
    for (uint32_t round = 0; round < RING_ROUNDS; round++) {
        for (uint32_t i = 0; i < 4; i++)
            sum += ((block ^ 1) * 7 + round * 3 + thread % 32 + 5 * i) * (round + i + 1);
        sum ^= round;
    }
    return sum;
}

#endif
