/* SPDX-License-Identifier: MIT */
/* The CPU target: cp.async arrives at the wait and not before. */
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
