/* SPDX-License-Identifier: MIT */
/* The CPU target: a kernel that would hang or go wrong on a GPU is an error with a sentence. */
#include <criterion/criterion.h>
#include <string.h>

#include "cpu_kernel.h"

static void expect_failure(const char *body, uint32_t num_blocks, const char *sentence)
{
    struct cpu_kernel kernel;
    static _Alignas(16) uint32_t in[64], out[64];
    cpu_kernel_init(&kernel, body, 64, 256);
    cr_expect_eq(cpu_kernel_launch(&kernel, num_blocks, in, out), FTJ_E_LAUNCH);
    cr_expect_not_null(strstr(kernel.catcher.last, sentence), "%s", kernel.catcher.last);
    cpu_kernel_finish(&kernel);
}

Test(cpu_failures, a_lane_that_left_is_waited_for_in_vain)
{
    expect_failure("if (thread == 40)\n"
                   "    return;\n"
                   "out[thread] = ptx::shfl_xor(thread, 1);\n",
                   1,
                   "thread 32 waits at shfl_xor for others that never come there: of 64 threads "
                   "31 wait and 33 have left the kernel");
}

Test(cpu_failures, a_warp_that_left_is_missed_at_the_barrier)
{
    expect_failure("if (block == 2 && thread >= 32)\n"
                   "    return;\n"
                   "ptx::sync_block();\n",
                   3, "failed in block 2 of 3: thread 0 waits at sync_block");
}

Test(cpu_failures, half_a_warp_at_the_barrier_and_half_at_a_shuffle_never_meet)
{
    expect_failure("if (thread % 32 < 16)\n"
                   "    ptx::sync_block();\n"
                   "else\n"
                   "    out[thread] = ptx::shfl(thread, 0);\n",
                   1,
                   "thread 0 waits at sync_block for others that never come there: of 64 threads "
                   "64 wait and 0 have left the kernel");
}

Test(cpu_failures, lanes_of_a_warp_at_different_collectives_are_told_apart)
{
    expect_failure("if (thread == 5)\n"
                   "    out[0] = ptx::any(true);\n"
                   "else\n"
                   "    out[thread] = ptx::movmatrix_trans(thread);\n",
                   1, "thread 5 is at any while 5 lanes of its warp are at movmatrix_trans");
}

Test(cpu_failures, a_copy_past_the_shared_memory_is_refused)
{
    expect_failure("ptx::cp_async_16(256 - 16 + 16 * (thread == 63), in);\n", 1,
                   "cp.async of 16 bytes by thread 63 to shared address 256, past the block's 256");
}

Test(cpu_failures, a_misaligned_copy_is_refused)
{
    expect_failure("ptx::cp_async_8(12, in);\n", 1, "shared address 12: not aligned");
    expect_failure("ptx::cp_async_16(16, in + 2);\n", 1, "shared address 16: not aligned");
}

Test(cpu_failures, leave_the_device_as_good_as_before)
{
    struct cpu_kernel kernel;
    uint32_t out[64] = {0};
    const uint32_t stay = 64, leave = 7;
    cpu_kernel_init(&kernel,
                    "if (thread == in[0])\n"
                    "    return;\n"
                    "out[thread] = ptx::shfl_xor(thread, 1);\n",
                    64, 256);
    for (int round = 0; round < 4; round++) {
        cr_expect_eq(cpu_kernel_launch(&kernel, 4, &leave, out), FTJ_E_LAUNCH);
        memset(out, 0, sizeof(out));
        cr_expect_eq(cpu_kernel_launch(&kernel, 4, &stay, out), FTJ_OK);
        cr_expect_eq(out[62], 63u);
    }
    cpu_kernel_finish(&kernel);
}

Test(cpu_failures, params_of_another_size_are_refused)
{
    struct cpu_kernel kernel;
    const uint64_t params[3] = {0};
    cpu_kernel_init(&kernel, "", 32, 0);
    cr_expect_eq(kernel.backend.ops->launch(&kernel.backend, &kernel.module,
                                            (struct ftj_grid){1, 1}, params, sizeof(params), NULL),
                 FTJ_E_LAUNCH);
    cr_expect_not_null(strstr(kernel.catcher.last, "params_bytes is 24"), "%s",
                       kernel.catcher.last);
    cpu_kernel_finish(&kernel);
}
