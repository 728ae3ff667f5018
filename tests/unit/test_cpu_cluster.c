/* SPDX-License-Identifier: MIT */
/* The CPU target: two blocks of a cluster, side by side, and what would hang or go wrong on a GPU.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_kernel.h"
#include "tests/compile/ring_kernel.h"

enum { THREADS = 64 };

static const struct ftj_config config = {
    .num_threads = THREADS, .smem_bytes = 256, .cluster_blocks = 2};

/* Where the block has its shared memory. */
static const char before[] = "const uint32_t own = ptx::shared_address(ptx::dynamic_shared());\n";

static void run(const char *body, const struct ftj_config *of, uint32_t num_blocks, uint32_t *out)
{
    struct cpu_kernel kernel;
    struct ftj_text text = {0};
    ftj_text_printf(&text, "%s%s", before, body);
    cpu_kernel_init_of(&kernel, text.data, of);
    ftj_text_finish(&text);
    cr_assert_eq(cpu_kernel_launch(&kernel, num_blocks, NULL, out), FTJ_OK, "%s",
                 kernel.catcher.last);
    cpu_kernel_finish(&kernel);
}

Test(cpu_cluster, tiles_go_round_in_rings)
{
    enum { BLOCKS = 6 };
    const struct ftj_config ring = {
        .num_threads = RING_THREADS, .smem_bytes = RING_SMEM_BYTES, .cluster_blocks = 2};
    static uint32_t out[BLOCKS * RING_THREADS];
    run(RING_BODY, &ring, BLOCKS, out);
    for (uint32_t i = 0; i < BLOCKS * RING_THREADS; i++) {
        const uint32_t right = ring_expected(i / RING_THREADS, i % RING_THREADS);
        cr_assert_eq(out[i], right, "block %u, thread %u: %u, not %u", i / RING_THREADS,
                     i % RING_THREADS, out[i], right);
    }
}

/* Collectives, barriers and shared memory of two blocks have nothing to do with each other. */
Test(cpu_cluster, a_block_is_as_it_would_be_alone)
{
    uint32_t out[4 * THREADS];
    memset(out, 0, sizeof(out));
    run("ptx::st_shared_u32(own + 4 * thread, block * 100 + thread);\n"
        "if (block % 2)\n"
        "    ptx::sync_block();\n"
        "ptx::sync_block();\n"
        "const uint32_t other = ptx::ld_shared_u32(own + 4 * (63 - thread));\n"
        "if (thread < 32)\n"
        "    ptx::sync_group(3, 32);\n"
        "out[block * 64 + thread] = ptx::shfl_xor(other, 1);\n",
        &config, 4, out);
    for (uint32_t i = 0; i < 4 * THREADS; i++)
        cr_expect_eq(out[i], i / 64 * 100 + (63 - (i % 64 ^ 1)), "%u: %u", i, out[i]);
}

/* Both have issued before either waits. */
Test(cpu_cluster, products_are_of_the_block_that_issued_them)
{
    enum { GROUP = 128 };
    const struct ftj_config wide = {.num_threads = GROUP, .smem_bytes = 16384, .cluster_blocks = 2};
    uint32_t out[2 * GROUP] = {0};
    run("for (uint32_t i = thread; i < 16384 / 4; i += 128)\n"
        "    ptx::st_shared_u32(own + 4 * i, i < 2048 && block % 2 ? 0x40004000 : 0x3c003c00);\n"
        "ptx::sync_block();\n"
        "float d[32];\n"
        "ptx::wgmma_ss_k64_f16<64>(d, 1u << 16, 8192 / 16 | 1u << 16, false);\n"
        "ptx::wgmma_commit();\n"
        "ptx::sync_cluster();\n"
        "ptx::wgmma_wait<0>();\n"
        "out[block * 128 + thread] = d[thread % 32];\n",
        &wide, 2, out);
    for (uint32_t i = 0; i < 2 * GROUP; i++)
        cr_expect_eq(out[i], 64 * (1 + i / GROUP), "%u: %u", i, out[i]);
}

Test(cpu_cluster, who_has_left_is_not_waited_for)
{
    uint32_t out[2 * THREADS] = {0};
    run("if (thread >= 32 && block == 1)\n"
        "    return;\n"
        "ptx::sync_cluster();\n"
        "out[block * 64 + thread] = 1;\n",
        &config, 2, out);
    for (uint32_t i = 0; i < 2 * THREADS; i++)
        cr_expect_eq(out[i], i < 96);
}

/* Copies that are waited for are an end as good as sync_cluster is. */
Test(cpu_cluster, copies_leave_as_late_as_they_come)
{
    const char *const body = "if (thread == 0)\n"
                             "    ptx::mbarrier_init(own, 1);\n"
                             "ptx::sync_cluster();\n"
                             "if (thread > 0)\n"
                             "    return;\n"
                             "ptx::mbarrier_arrive_expect_tx(own, 16);\n"
                             "ptx::st_shared_u32(own + 32, 7);\n"
                             "ptx::bulk_copy_to_peer(ptx::peer_shared(own + 16), own + 32, 16,\n"
                             "                       ptx::peer_shared(own));\n"
                             "%s"
                             "ptx::mbarrier_wait(own, 0);\n"
                             "out[block] = ptx::ld_shared_u32(own + 16);\n"
                             "ptx::sync_cluster();\n";
    uint32_t out[2] = {0};
    struct ftj_text text = {0};
    ftj_text_printf(&text, body, "");
    run(text.data, &config, 2, out);
    cr_expect(out[0] == 7 && out[1] == 7, "%u, %u", out[0], out[1]);
    ftj_text_finish(&text);

    ftj_text_printf(&text, body, "ptx::st_shared_u32(own + 32, 8);\n"); /* too early */
    run(text.data, &config, 2, out);
    cr_expect(out[0] == 8 && out[1] == 8, "%u, %u", out[0], out[1]);
    ftj_text_finish(&text);
}

/* `body` comes after a barrier at 0 of two arrivals, which both blocks know of. */
static void expect_failure(const char *body, const char *sentence)
{
    struct cpu_kernel kernel;
    struct ftj_text text = {0};
    uint32_t out[2 * THREADS];
    ftj_text_printf(&text,
                    "%sif (thread == 0)\n"
                    "    ptx::mbarrier_init(own, 2);\n"
                    "ptx::sync_cluster();\n"
                    "const uint32_t peer = ptx::peer_shared(own);\n"
                    "%s",
                    before, body);
    cpu_kernel_init_of(&kernel, text.data, &config);
    cr_expect_eq(cpu_kernel_launch(&kernel, 2, NULL, out), FTJ_E_LAUNCH, "%s", sentence);
    cr_expect_not_null(strstr(kernel.catcher.last, sentence), "%s", kernel.catcher.last);
    cpu_kernel_finish(&kernel);
    ftj_text_finish(&text);
}

Test(cpu_cluster, what_would_hang_is_a_sentence)
{
    expect_failure(
        "if (thread == 5)\n"
        "    ptx::mbarrier_wait(own, 0);\n",
        "block 0 of 2: thread 5 waits at mbarrier_wait for others that never come there: "
        "of 128 threads 2 wait and 126 have left the kernel");
    expect_failure("if (thread == 5 && block == 1) {\n"
                   "    ptx::mbarrier_arrive(own);\n"
                   "    ptx::mbarrier_wait(own, 0);\n"
                   "}\n",
                   "block 1 of 2: thread 5 waits at mbarrier_wait");
    expect_failure("if (block == 1)\n"
                   "    ptx::mbarrier_wait(own, 0);\n"
                   "ptx::sync_cluster();\n",
                   "block 0 of 2: thread 0 waits at sync_cluster");
}

Test(cpu_cluster, what_would_go_wrong_is_a_sentence)
{
    expect_failure("if (block == 0 && thread < 3)\n"
                   "    ptx::mbarrier_arrive_peer(peer);\n"
                   "if (block == 0 && thread == 3)\n"
                   "    ptx::mbarrier_arrive_peer(peer + 8);\n",
                   "block 0 of 2: thread 3 uses an mbarrier at shared address 8 that was not");
    expect_failure("if (thread == 0)\n"
                   "    ptx::mbarrier_arrive_peer(own);\n",
                   "uses 0, which is no address of the other block's");
    expect_failure("if (thread == 0 && block == 1)\n"
                   "    ptx::mbarrier_arrive(peer);\n",
                   "block 1 of 2: thread 0 uses an mbarrier at shared address 4278190080 of 256");
    expect_failure("if (thread == 0)\n"
                   "    ptx::bulk_copy_to_peer(ptx::peer_shared(own + 248), own + 16, 16, peer);\n",
                   "to shared address 248: not aligned to 16");
    expect_failure("if (thread == 0)\n"
                   "    ptx::bulk_copy_to_peer(ptx::peer_shared(own + 240), own + 16, 32, peer);\n",
                   "to shared address 240, past the block's 256 bytes");
    expect_failure("if (thread == 0)\n"
                   "    ptx::bulk_copy_to_peer(ptx::peer_shared(own + 16), own + 240, 32, peer);\n",
                   "from shared address 240, past the block's 256 bytes");
    expect_failure("if (thread == 0)\n"
                   "    ptx::st_async_u32(ptx::peer_shared(own + 254), 1, peer);\n",
                   "st.async by thread 0 to shared address 254 of 256 bytes");
}

/* On the way back to where they came from, of which nobody has said that they are gone. */
Test(cpu_cluster, copies_do_not_overwrite_what_others_are_to_read)
{
    expect_failure("if (thread == 0)\n"
                   "    ptx::bulk_copy_to_peer(ptx::peer_shared(own + 64), own + 64, 32, peer);\n"
                   "ptx::sync_cluster();\n",
                   "block 1 of 2: cp.async.bulk of 32 bytes by thread 0 to shared address 64: over "
                   "what a copy to the other block is still to read");
}

/* Both expect 16 bytes, and each arrives at its own barrier. */
#define EXPECTS                                                                                    \
    "if (thread == 0) {\n"                                                                         \
    "    ptx::mbarrier_arrive_expect_tx(own, 16);\n"                                               \
    "    ptx::mbarrier_arrive(own);\n"                                                             \
    "}\n"

Test(cpu_cluster, who_leaves_too_early_is_told)
{
    /* Nobody knows that it has arrived where it is to. */
    expect_failure("if (thread == 0 && block == 0)\n"
                   "    ptx::mbarrier_arrive_peer(peer);\n",
                   "block 1 of 2: the block has left the kernel before an arrival of the other "
                   "block at its mbarrier at 0 was waited for");
    /* The last of block 1 have arrived, and left, when block 0 arrives. */
    expect_failure("if (block == 1) {\n"
                   "    if (thread >= 62)\n"
                   "        ptx::mbarrier_arrive_peer(peer);\n"
                   "    return;\n"
                   "}\n"
                   "ptx::mbarrier_wait(own, 0);\n"
                   "if (thread == 0)\n"
                   "    ptx::mbarrier_arrive_peer(peer);\n",
                   "block 0 of 2: thread 0 reaches into the other block, which has left");
    expect_failure(EXPECTS
                   "if (thread == 0)\n"
                   "    ptx::bulk_copy_to_peer(ptx::peer_shared(own + 16), own + 32, 16, peer);\n",
                   "before 1 copies out of its shared memory were waited for");
    expect_failure(EXPECTS "if (thread == 0 && block == 1)\n"
                           "    ptx::st_async_u32(ptx::peer_shared(own + 16), 1, peer);\n"
                           "ptx::sync_cluster();\n",
                   "block 0 of 2: a block has ended before 1 of its bulk copies were waited for");
}

Test(cpu_cluster, nobody_reaches_into_a_block_that_may_not_have_begun)
{
    struct cpu_kernel kernel;
    uint32_t out[2 * THREADS];
    cpu_kernel_init_of(&kernel,
                       "const uint32_t own = ptx::shared_address(ptx::dynamic_shared());\n"
                       "if (thread == 0)\n"
                       "    ptx::mbarrier_init(own, 1);\n"
                       "ptx::sync_block();\n"
                       "if (thread == 0)\n"
                       "    ptx::mbarrier_arrive_peer(ptx::peer_shared(own));\n"
                       "ptx::mbarrier_wait(own, 0);\n",
                       &config);
    cr_expect_eq(cpu_kernel_launch(&kernel, 2, NULL, out), FTJ_E_LAUNCH);
    cr_expect_not_null(strstr(kernel.catcher.last, "which may not have begun"), "%s",
                       kernel.catcher.last);
    cpu_kernel_finish(&kernel);
}

Test(cpu_cluster, grids_are_of_whole_clusters)
{
    struct cpu_kernel kernel;
    uint32_t out[3 * THREADS];
    cpu_kernel_init_of(&kernel, "out[block] = 1;\n", &config);
    cr_expect_eq(cpu_kernel_launch(&kernel, 3, NULL, out), FTJ_E_LAUNCH);
    cr_expect_not_null(strstr(kernel.catcher.last, "3 blocks are no whole clusters of 2"), "%s",
                       kernel.catcher.last);
    cpu_kernel_finish(&kernel);

    struct ftj_module module = {0};
    const struct ftj_bytes code = {0};
    cpu_kernel_init_of(&kernel, "", &config);
    const struct ftj_config wide = {.num_threads = 544, .cluster_blocks = 2};
    cr_expect_eq(kernel.backend.ops->module_load(&kernel.backend, &code, &wide, &module),
                 FTJ_E_INVALID);
    cr_expect_not_null(strstr(kernel.catcher.last, "2 blocks of 544 threads"), "%s",
                       kernel.catcher.last);
    cpu_kernel_finish(&kernel);
}
