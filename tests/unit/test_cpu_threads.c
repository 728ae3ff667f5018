/* SPDX-License-Identifier: MIT */
/* The CPU target: threads of a block, barriers, shuffles, shared memory. */
#include <criterion/criterion.h>
#include <string.h>

#include "cpu_kernel.h"

/* Anything but regular. */
static uint32_t scrambled(uint32_t i)
{
    i = (i ^ 61u ^ i >> 16) * 9u;
    return (i ^ i >> 4) * 0x27d4eb2du;
}

static void scramble(uint32_t *words, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        words[i] = scrambled(i + 1);
}

Test(cpu_threads, know_where_they_stand)
{
    uint32_t out[5 * 96];
    memset(out, 0, sizeof(out));
    cpu_kernel_run("out[block * 96 + thread] = block << 16 | thread << 4 | ptx::num_blocks();", 5,
                   96, 0, NULL, out);
    for (uint32_t i = 0; i < 5 * 96; i++)
        cr_expect_eq(out[i], i / 96 << 16 | i % 96 << 4 | 5, "thread %u", i);
}

/* Every halving reads what other warps wrote before the barrier. */
static const char reduction[] =
    "const uint32_t address = ptx::shared_address(ptx::dynamic_shared());\n"
    "ptx::st_shared_u32(address + 4 * thread, in[block * 256 + thread]);\n"
    "for (uint32_t half = 128; half > 0; half /= 2) {\n"
    "    ptx::sync_block();\n"
    "    if (thread < half)\n"
    "        ptx::st_shared_u32(4 * thread, ptx::ld_shared_u32(4 * thread) +\n"
    "                                       ptx::ld_shared_u32(4 * (thread + half)));\n"
    "}\n"
    "if (thread == 0)\n"
    "    out[block] = ptx::ld_shared_u32(0);\n";

Test(cpu_threads, reduce_over_a_block_with_barriers)
{
    static uint32_t in[33 * 256];
    uint32_t out[33] = {0};
    scramble(in, 33 * 256);
    cpu_kernel_run(reduction, 33, 256, 1024, in, out);
    for (uint32_t block = 0; block < 33; block++) {
        uint32_t sum = 0;
        for (uint32_t i = 0; i < 256; i++)
            sum += in[block * 256 + i];
        cr_expect_eq(out[block], sum, "block %u", block);
    }
}

Test(cpu_threads, without_a_barrier_the_same_reduction_is_wrong)
{
    static uint32_t in[256];
    uint32_t out = 0, sum = 0;
    scramble(in, 256);
    for (uint32_t i = 0; i < 256; i++)
        sum += in[i];
    cpu_kernel_run(
        "ptx::st_shared_u32(4 * thread, in[thread]);\n"
        "for (uint32_t half = 128; half > 0; half /= 2) {\n"
        "    if (thread < half)\n"
        "        ptx::st_shared_u32(4 * thread, ptx::ld_shared_u32(4 * thread) +\n"
        "                                       ptx::ld_shared_u32(4 * (thread + half)));\n"
        "}\n"
        "if (thread == 0)\n"
        "    out[0] = ptx::ld_shared_u32(0);\n",
        1, 256, 1024, in, &out);
    cr_expect_neq(out, sum);
}

Test(cpu_threads, exchange_values_in_a_warp)
{
    uint32_t in[64], out[6][64];
    scramble(in, 64);
    memset(out, 0, sizeof(out));
    cpu_kernel_run("const uint32_t v = in[thread], lane = thread % 32;\n"
                   "out[thread] = ptx::shfl(v, (lane * 5 + 3) % 32);\n"
                   "out[64 + thread] = ptx::shfl_xor(v, 9);\n"
                   "out[128 + thread] = ptx::shfl_up(v, 3);\n"
                   "out[192 + thread] = ptx::float_bits(ptx::shfl(ptx::bits_float(v), 7));\n"
                   "out[256 + thread] = ptx::float_bits(ptx::shfl_xor(ptx::bits_float(v), 16));\n"
                   "ptx::sync_warp();\n"
                   "out[320 + thread] = ptx::any(thread == 37);\n",
                   1, 64, 0, in, out);
    for (uint32_t i = 0; i < 64; i++) {
        const uint32_t lane = i % 32, warp = i - lane;
        cr_expect_eq(out[0][i], in[warp + (lane * 5 + 3) % 32], "shfl, thread %u", i);
        cr_expect_eq(out[1][i], in[warp + (lane ^ 9)], "shfl_xor, thread %u", i);
        cr_expect_eq(out[2][i], in[warp + (lane < 3 ? lane : lane - 3)], "shfl_up, thread %u", i);
        cr_expect_eq(out[3][i], in[warp + 7], "shfl of a float, thread %u", i);
        cr_expect_eq(out[4][i], in[warp + (lane ^ 16)], "shfl_xor of a float, thread %u", i);
        cr_expect_eq(out[5][i], (uint32_t)(warp == 32), "any, thread %u", i);
    }
}

/* Not the first: a kernel that takes it for that is wrong here. */
Test(cpu_threads, elect_one_lane_of_each_warp)
{
    uint32_t out[96];
    memset(out, 0, sizeof(out));
    cpu_kernel_run("out[thread] = ptx::elect_lane();", 1, 96, 0, NULL, out);
    for (uint32_t warp = 0; warp < 3; warp++) {
        uint32_t elected = 0;
        for (uint32_t lane = 0; lane < 32; lane++)
            elected += out[32 * warp + lane];
        cr_expect_eq(elected, 1, "warp %u", warp);
        cr_expect_eq(out[32 * warp], 0, "warp %u", warp);
    }
}

Test(cpu_threads, transpose_a_matrix_with_movmatrix)
{
    uint32_t in[32], out[32] = {0};
    scramble(in, 32);
    cpu_kernel_run("out[thread] = ptx::movmatrix_trans(in[thread]);", 1, 32, 0, in, out);

    uint16_t from[8][8], to[8][8];
    memcpy(from, in, sizeof(from));
    memcpy(to, out, sizeof(to));
    for (int row = 0; row < 8; row++) {
        for (int column = 0; column < 8; column++)
            cr_expect_eq(to[row][column], from[column][row], "row %d, column %d", row, column);
    }
}

/* Rows of each matrix lie 32 bytes apart here, the matrices 256. */
Test(cpu_threads, store_matrices_with_stmatrix)
{
    uint32_t in[128], out[256] = {0};
    scramble(in, 128);
    cpu_kernel_run("const uint32_t* own = in + 4 * thread;\n"
                   "ptx::stmatrix(thread / 8 * 256 + thread % 8 * 32,\n"
                   "              {{own[0], own[1], own[2], own[3]}});\n"
                   "ptx::sync_block();\n"
                   "for (uint32_t i = thread; i < 256; i += 32)\n"
                   "    out[i] = ptx::ld_shared_u32(4 * i);\n",
                   1, 32, 1024, in, out);
    for (int matrix = 0; matrix < 4; matrix++) {
        for (int row = 0; row < 8; row++) {
            for (int c = 0; c < 4; c++)
                cr_expect_eq(out[64 * matrix + 8 * row + c], in[4 * (4 * row + c) + matrix],
                             "matrix %d, row %d, lane %d", matrix, row, c);
        }
    }
}

Test(cpu_threads, find_unwritten_shared_memory_full_of_ones_in_every_block)
{
    uint32_t out[40] = {0};
    cpu_kernel_run("if (thread == 0)\n"
                   "    out[block] = ptx::ld_shared_u32(96);\n"
                   "ptx::sync_block();\n"
                   "ptx::st_shared_u32(96, block);\n",
                   40, 32, 100, NULL, out);
    for (uint32_t block = 0; block < 40; block++)
        cr_expect_eq(out[block], 0xffffffffu, "block %u", block);
}

Test(cpu_threads, read_and_write_every_width_of_shared_memory)
{
    uint32_t in[4] = {0x03020100u, 0x07060504u, 0x0b0a0908u, 0x0f0e0d0cu}, out[12] = {0};
    cpu_kernel_run("if (thread > 0)\n"
                   "    return;\n"
                   "ptx::st_shared_v4(16, {{in[0], in[1], in[2], in[3]}});\n"
                   "ptx::st_shared_v2(32, {{in[1], in[0]}});\n"
                   "ptx::st_shared_u16(40, 0x12345u);\n"
                   "ptx::st_shared_u8(42, 0x678u);\n"
                   "ptx::st_shared_u8(43, 0x9au);\n"
                   "for (int i = 0; i < 4; i++)\n"
                   "    out[i] = ptx::ld_shared_v4(16).w[i];\n"
                   "out[4] = ptx::ld_shared_v2(24).w[0];\n"
                   "out[5] = ptx::ld_shared_v2(32).w[1];\n"
                   "out[6] = ptx::ld_shared_u16(22);\n"
                   "out[7] = ptx::ld_shared_u8(29);\n"
                   "out[8] = ptx::ld_shared_u32(40);\n"
                   "out[9] = ptx::float_bits(ptx::ld_shared_f32(16));\n",
                   1, 32, 48, in, out);
    const uint32_t expected[] = {in[0], in[1],   in[2], in[3],       in[2],
                                 in[0], 0x0706u, 0x0du, 0x9a782345u, in[0]};
    for (int i = 0; i < 10; i++)
        cr_expect_eq(out[i], expected[i], "row %d: %#x", i, out[i]);
}

Test(cpu_threads, count_together_with_atomics)
{
    uint32_t out = 0;
    cpu_kernel_run("ptx::atomic_add(out, thread + 1);", 64, 128, 0, NULL, &out);
    cr_expect_eq(out, 64u * 128u * 129u / 2u);
}

Test(cpu_threads, of_the_largest_block_run_again_and_again)
{
    struct cpu_kernel kernel;
    static uint32_t in[1024], out[1024];
    scramble(in, 1024);
    cpu_kernel_init(&kernel,
                    "const uint32_t v = ptx::shfl_xor(in[thread], 1);\n"
                    "ptx::st_shared_u32(4 * thread, v);\n"
                    "ptx::sync_block();\n"
                    "out[thread] = ptx::ld_shared_u32(4 * (1023 - thread));\n",
                    1024, 4096);
    for (int round = 0; round < 3; round++) {
        memset(out, 0, sizeof(out));
        cr_assert_eq(cpu_kernel_launch(&kernel, 1, in, out), FTJ_OK);
        for (uint32_t i = 0; i < 1024; i++)
            cr_assert_eq(out[i], in[(1023 - i) ^ 1], "round %d, thread %u", round, i);
    }
    cpu_kernel_finish(&kernel);
}
