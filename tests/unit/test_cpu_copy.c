/* SPDX-License-Identifier: MIT */
/* The CPU target: cp.async and bulk copies arrive at the wait and not before. */
#include <criterion/criterion.h>
#include <string.h>

#include "cpu_kernel.h"

Test(cpu_copy, reads_as_ones_until_it_is_waited_for)
{
    _Alignas(16) uint32_t in[4] = {1, 2, 3, 4};
    uint32_t out[4] = {0};
    cpu_kernel_run("if (thread > 0)\n"
                   "    return;\n"
                   "ptx::st_shared_u32(0, 77);\n"
                   "ptx::cp_async_16(0, in);\n"
                   "out[0] = ptx::ld_shared_u32(0);\n"
                   "ptx::cp_async_commit();\n"
                   "out[1] = ptx::ld_shared_u32(0);\n"
                   "ptx::cp_async_wait<1>();\n"
                   "out[2] = ptx::ld_shared_u32(0);\n"
                   "ptx::cp_async_wait<0>();\n"
                   "out[3] = ptx::ld_shared_u32(0);\n",
                   1, 32, 16, in, out);
    const uint32_t expected[] = {0xffffffffu, 0xffffffffu, 0xffffffffu, 1};
    for (int i = 0; i < 4; i++)
        cr_expect_eq(out[i], expected[i], "row %d: %#x", i, out[i]);
}

Test(cpu_copy, may_be_waited_for_where_there_is_none)
{
    uint32_t out = 0;
    cpu_kernel_run("ptx::cp_async_wait<0>();\n"
                   "ptx::cp_async_commit();\n"
                   "ptx::cp_async_wait<0>();\n"
                   "out[0] = 1;\n",
                   1, 32, 0, NULL, &out);
    cr_expect_eq(out, 1u);
}

Test(cpu_copy, arrives_in_order_of_its_groups)
{
    _Alignas(16) uint32_t in[8] = {10, 11, 12, 13, 14, 15, 16, 17};
    uint32_t out[3 * 4] = {0};
    cpu_kernel_run("if (thread > 0)\n"
                   "    return;\n"
                   "ptx::cp_async_4(0, in);\n"
                   "ptx::cp_async_8(8, in + 2);\n"
                   "ptx::cp_async_commit();\n"
                   "ptx::cp_async_commit();\n" /* an empty group counts */
                   "ptx::cp_async_4(16, in + 4);\n"
                   "ptx::cp_async_commit();\n"
                   "ptx::cp_async_4(20, in + 5);\n" /* in no group yet */
                   "const uint32_t addresses[4] = {0, 12, 16, 20};\n"
                   "ptx::cp_async_wait<1>();\n"
                   "for (int i = 0; i < 4; i++)\n"
                   "    out[i] = ptx::ld_shared_u32(addresses[i]);\n"
                   "ptx::cp_async_wait<0>();\n"
                   "for (int i = 0; i < 4; i++)\n"
                   "    out[4 + i] = ptx::ld_shared_u32(addresses[i]);\n"
                   "ptx::cp_async_commit();\n"
                   "ptx::cp_async_wait<0>();\n"
                   "for (int i = 0; i < 4; i++)\n"
                   "    out[8 + i] = ptx::ld_shared_u32(addresses[i]);\n",
                   1, 32, 24, in, out);
    const uint32_t none = 0xffffffffu;
    const uint32_t expected[] = {10, 13, none, none, 10, 13, 14, none, 10, 13, 14, 15};
    for (int i = 0; i < 12; i++)
        cr_expect_eq(out[i], expected[i], "row %d: %#x", i, out[i]);
}

/* Three stages; each thread reads what its neighbour copied, so that the wait alone is not enough.
 */
Test(cpu_copy, feeds_a_pipeline_of_three_stages)
{
    enum { TILES = 9, THREADS = 64 };
    static _Alignas(16) uint32_t in[TILES * THREADS];
    static uint32_t out[TILES * THREADS];
    for (uint32_t i = 0; i < TILES * THREADS; i++)
        in[i] = 1000 + i;
    cpu_kernel_run(
        "for (uint32_t tile = 0; tile < 9 + 2; tile++) {\n"
        "    if (tile < 9)\n"
        "        ptx::cp_async_4(tile % 3 * 256 + thread * 4, in + tile * 64 + thread);\n"
        "    ptx::cp_async_commit();\n"
        "    if (tile < 2)\n"
        "        continue;\n"
        "    ptx::cp_async_wait<2>();\n"
        "    ptx::sync_block();\n"
        "    const uint32_t other = 63 - thread;\n"
        "    out[(tile - 2) * 64 + thread] =\n"
        "        ptx::ld_shared_u32((tile - 2) % 3 * 256 + other * 4);\n"
        "    ptx::sync_block();\n"
        "}\n",
        1, THREADS, 3 * 256, in, out);
    for (uint32_t i = 0; i < TILES * THREADS; i++)
        cr_expect_eq(out[i], in[i / 64 * 64 + 63 - i % 64], "word %u", i);
}

/* ---- bulk copies ----------------------------------------------------------------------------- */

Test(cpu_copy, of_many_bytes_reads_as_ones_until_its_barrier_is_waited_for)
{
    _Alignas(16) uint32_t in[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint32_t out[6] = {0};
    cpu_kernel_run("if (thread > 0)\n"
                   "    return;\n"
                   "ptx::mbarrier_init(32, 1);\n"
                   "ptx::mbarrier_init(40, 1);\n"
                   "ptx::mbarrier_arrive_expect_tx(32, 16);\n"
                   "ptx::mbarrier_arrive_expect_tx(40, 16);\n"
                   "ptx::st_shared_u32(0, 77);\n"
                   "ptx::cp_async_bulk(0, in, 16, 32, 0);\n"
                   "ptx::cp_async_bulk(16, in + 4, 16, 40, 0);\n"
                   "out[0] = ptx::ld_shared_u32(0);\n"
                   "ptx::mbarrier_wait(32, 0);\n"
                   "out[1] = ptx::ld_shared_u32(0);\n"
                   "out[2] = ptx::ld_shared_u32(12);\n"
                   "out[3] = ptx::ld_shared_u32(16);\n"
                   "ptx::mbarrier_wait(40, 0);\n"
                   "out[4] = ptx::ld_shared_u32(16);\n"
                   "out[5] = ptx::ld_shared_u32(28);\n",
                   1, 32, 48, in, out);
    const uint32_t expected[] = {0xffffffffu, 1, 4, 0xffffffffu, 5, 8};
    for (int i = 0; i < 6; i++)
        cr_expect_eq(out[i], expected[i], "row %d: %#x", i, out[i]);
}

/* Lane 0 says how many bytes, others copy them; the second warp waits before there is anything. */
Test(cpu_copy, of_several_lanes_ends_one_phase_for_those_who_wait_already)
{
    enum { ROUNDS = 5 };
    static _Alignas(16) uint32_t in[ROUNDS * 16];
    uint32_t out[ROUNDS * 32] = {0};
    for (uint32_t i = 0; i < ROUNDS * 16; i++)
        in[i] = 500 + i;
    cpu_kernel_run("if (thread == 0) {\n"
                   "    ptx::mbarrier_init(64, 1);\n"
                   "    ptx::mbarrier_init(72, 32);\n"
                   "}\n"
                   "ptx::sync_block();\n"
                   "for (uint32_t i = 0; i < 5; i++) {\n"
                   "    if (thread >= 32) {\n"
                   "        ptx::mbarrier_wait(64, i % 2);\n"
                   "        out[i * 32 + thread - 32] = ptx::ld_shared_u32(thread % 16 * 4);\n"
                   "        ptx::mbarrier_arrive(72);\n"
                   "        continue;\n"
                   "    }\n"
                   "    ptx::mbarrier_wait(72, i % 2 ^ 1);\n"
                   "    if (thread == 0)\n"
                   "        ptx::mbarrier_arrive_expect_tx(64, 64);\n"
                   "    ptx::sync_warp();\n"
                   "    if (thread < 4)\n"
                   "        ptx::cp_async_bulk(16 * thread, in + i * 16 + 4 * thread, 16, 64, 0);\n"
                   "}\n",
                   1, 64, 80, in, out);
    for (uint32_t i = 0; i < ROUNDS * 32; i++)
        cr_expect_eq(out[i], 500 + i / 32 * 16 + i % 16, "round %u, thread %u: %u", i / 32, i % 32,
                     out[i]);
}

static void expect_failure(const char *body, const char *sentence)
{
    struct cpu_kernel kernel;
    _Alignas(16) uint32_t in[8] = {0};
    uint32_t out = 0;
    cpu_kernel_init(&kernel, body, 32, 64);
    cr_expect_eq(cpu_kernel_launch(&kernel, 1, in, &out), FTJ_E_LAUNCH);
    cr_expect_not_null(strstr(kernel.catcher.last, sentence), "%s", kernel.catcher.last);
    cpu_kernel_finish(&kernel);
}

Test(cpu_copy, that_a_gpu_would_not_make_is_a_sentence)
{
#define WITH_A_BARRIER                                                                             \
    "if (thread > 0)\n"                                                                            \
    "    return;\n"                                                                                \
    "ptx::mbarrier_init(48, 1);\n"                                                                 \
    "ptx::mbarrier_arrive_expect_tx(48, 16);\n"
    expect_failure(WITH_A_BARRIER "ptx::cp_async_bulk(8, in, 16, 48, 0);\n", "not aligned to 16");
    expect_failure(WITH_A_BARRIER "ptx::cp_async_bulk(0, in + 1, 16, 48, 0);\n",
                   "not aligned to 16");
    expect_failure(WITH_A_BARRIER "ptx::cp_async_bulk(0, in, 24, 48, 0);\n", "not aligned to 16");
    expect_failure(WITH_A_BARRIER "ptx::cp_async_bulk(48, in, 32, 48, 0);\n",
                   "past the block's 64 bytes");
    expect_failure(WITH_A_BARRIER "ptx::cp_async_bulk(0, in, 16, 40, 0);\n",
                   "an mbarrier at shared address 40 that was not initialised");
    expect_failure(WITH_A_BARRIER "ptx::cp_async_bulk(0, in, 16, 48, 0);\n",
                   "a block has ended before 1 of its bulk copies were waited for");
    expect_failure(WITH_A_BARRIER "ptx::mbarrier_wait(48, 0);\n",
                   "waits at mbarrier_wait for others that never come there");
    expect_failure(WITH_A_BARRIER "ptx::mbarrier_arrive(48);\n",
                   "one more than the 1 arrivals of the mbarrier at 48");
#undef WITH_A_BARRIER
}
