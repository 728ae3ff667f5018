/* SPDX-License-Identifier: MIT */
/* The CPU target: wgmma against a naive product, with its operands laid out as the PTX manual draws
 * them; and mbarriers. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "cpu_kernel.h"
#include "templates/block/params.h"

enum { ROWS = 64, DEPTH = 64, MAX_N = 256, THREADS = 128 };

/* Small whole numbers, whose products and sums are exact in any order. */
static int number(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (int)(*state >> 28) - 8;
}

/* In fp16 or bf16, exactly. */
static uint16_t code_of(bool is_bf16, int value)
{
    if (value == 0)
        return 0;
    const int sign = value < 0;
    int magnitude = sign ? -value : value;
    int exponent = 0;
    while (magnitude >> (exponent + 1))
        exponent++;
    const int fraction_bits = is_bf16 ? 7 : 10;
    const int fraction = (magnitude << fraction_bits >> exponent) - (1 << fraction_bits);
    return (uint16_t)(sign << 15 | (exponent + (is_bf16 ? 127 : 15)) << fraction_bits | fraction);
}

/* The 128-byte swizzle: the chunk's number, XOR the row's within eight. */
static void put(unsigned char *tile, uint32_t address, uint16_t code)
{
    memcpy(tile + (address ^ (address >> 7 & 7) << 4), &code, sizeof(code));
}

/* A from the shared tile at 0, or its fragments after the tiles; B in the tile after A's. */
static const char body_before[] =
    "for (uint32_t i = thread; i < 40960 / 4; i += 128)\n"
    "    ptx::st_shared_u32(4 * i, in[i]);\n"
    "ptx::sync_block();\n"
    "constexpr int n = N;\n"
    "float d[n / 2];\n"
    "for (int i = 0; i < n / 2; i++)\n"
    "    d[i] = -1.0f;\n"
    "uint32_t a[16];\n"
    "for (int i = 0; i < 16; i++)\n"
    "    a[i] = in[40960 / 4 + thread * 16 + i];\n"
    "const uint32_t shared_a = 1u << 16, shared_b = 8192 / 16 | LEADING / 16 << 16;\n";
static const char body_after[] = "ptx::wgmma_commit();\n"
                                 "const float early = d[0];\n"
                                 "ptx::wgmma_wait<0>();\n"
                                 "for (int i = 0; i < n / 2; i++)\n"
                                 "    out[thread * 129 + i] = ptx::float_bits(d[i]);\n"
                                 "out[thread * 129 + 128] = ptx::float_bits(early);\n";

struct product {
    int a[ROWS][DEPTH], b[DEPTH][MAX_N];
    unsigned char shared[40960 + THREADS * 64];
};

static void product_init(struct product *product, bool is_bf16, bool in_registers, int n)
{
    uint32_t state = 7 * (uint32_t)n + in_registers;
    memset(product, 0, sizeof(*product));
    for (uint32_t m = 0; m < ROWS; m++) {
        for (uint32_t k = 0; k < DEPTH; k++) {
            product->a[m][k] = number(&state);
            const uint16_t code = code_of(is_bf16, product->a[m][k]);
            put(product->shared, m * 128 + k * 2, code);
            const uint32_t thread = m / 16 * 32 + m % 8 * 4 + k % 8 / 2;
            const uint32_t word = m % 16 / 8 + k / 8 * 2;
            memcpy(product->shared + 40960 + thread * 64 + word * 4 + k % 2 * 2, &code, 2);
        }
    }
    for (uint32_t k = 0; k < DEPTH; k++) {
        for (uint32_t j = 0; j < (uint32_t)n; j++) {
            product->b[k][j] = number(&state);
            const uint16_t code = code_of(is_bf16, product->b[k][j]);
            const uint32_t over_k = j * 128 + k * 2;
            const uint32_t over_n = j / 64 * (DEPTH * 128) + k * 128 + j % 64 * 2;
            put(product->shared + 8192, in_registers ? over_n : over_k, code);
        }
    }
}

static void check(bool is_bf16, bool in_registers, int n)
{
    static struct product product;
    static float out[THREADS][129];
    struct ftj_text body = {0};
    product_init(&product, is_bf16, in_registers, n);
    ftj_text_printf(&body,
                    "constexpr int N = %d;\nconstexpr uint32_t LEADING = %d;\n%s"
                    "ptx::wgmma_%s_k64_%s<n>(d, %s);\n(void)shared_a;\n%s",
                    n, in_registers ? DEPTH * 128 : 16, body_before, in_registers ? "rs" : "ss",
                    is_bf16 ? "bf16" : "f16",
                    in_registers ? "a, shared_b" : "shared_a, shared_b, true", body_after);
    cpu_kernel_run(body.data, 1, THREADS, 40960, product.shared, out);
    ftj_text_finish(&body);
    for (int m = 0; m < ROWS; m++) {
        for (int j = 0; j < n; j++) {
            int sum = -1;
            for (int k = 0; k < DEPTH; k++)
                sum += product.a[m][k] * product.b[k][j];
            const int thread = m / 16 * 32 + m % 8 * 4 + j % 8 / 2;
            const float got = out[thread][j / 8 * 4 + m % 16 / 8 * 2 + j % 2];
            cr_assert_float_eq(got, (float)sum, 0, "n %d: d[%d][%d] is %f, not %d", n, m, j,
                               (double)got, sum);
        }
    }
    for (int t = 0; t < THREADS; t++)
        cr_assert_float_eq(out[t][128], -1, 0, "a result was there before the wait");
}

Test(cpu_group, wgmma_of_shared_operands_is_the_product)
{
    check(false, false, 64);
    check(true, false, 128);
}

Test(cpu_group, wgmma_of_registers_is_the_product)
{
    check(false, true, 64);
    check(true, true, 128);
    check(false, true, 256);
}

Test(cpu_group, mbarrier_phases_let_everybody_through_in_turn)
{
    uint32_t out[64] = {0};
    cpu_kernel_run("if (thread == 0) {\n"
                   "    ptx::mbarrier_init(0, 32);\n"
                   "    ptx::mbarrier_init(8, 32);\n"
                   "}\n"
                   "ptx::sync_block();\n"
                   "uint32_t sum = 0;\n"
                   "for (uint32_t i = 0; i < 10; i++) {\n"
                   "    if (thread < 32) {\n"
                   "        ptx::mbarrier_wait(8, i % 2 ^ 1);\n"
                   "        ptx::st_shared_u32(64 + 4 * thread, 100 * i + thread);\n"
                   "        ptx::mbarrier_arrive(0);\n"
                   "    } else {\n"
                   "        ptx::mbarrier_wait(0, i % 2);\n"
                   "        sum += ptx::ld_shared_u32(64 + 4 * (63 - thread));\n"
                   "        ptx::mbarrier_arrive(8);\n"
                   "    }\n"
                   "}\n"
                   "out[thread] = sum;\n",
                   1, 64, 256, NULL, out);
    for (uint32_t t = 32; t < 64; t++)
        cr_expect_eq(out[t], 4500 + 10 * (63 - t), "thread %u: %u", t, out[t]);
}

Test(cpu_group, named_barriers_hold_the_warps_that_use_them)
{
    uint32_t out[96] = {0};
    cpu_kernel_run("if (thread < 64) {\n"
                   "    ptx::st_shared_u32(4 * thread, thread);\n"
                   "    ptx::sync_group(3, 64);\n"
                   "    out[thread] = ptx::ld_shared_u32(4 * (63 - thread));\n"
                   "}\n",
                   1, 96, 256, NULL, out);
    for (uint32_t t = 0; t < 64; t++)
        cr_expect_eq(out[t], 63 - t);
}

/* Thread 40 and thread 50 copy; `announcer` says that there will be 32 bytes. */
static void expect_counted(const char *announcer)
{
    const uint32_t in[8] = {3, 1, 4, 1, 5, 9, 2, 6};
    uint32_t out[64] = {0};
    char body[640];
    snprintf(body, sizeof(body),
             "if (thread == 0)\n"
             "    ptx::mbarrier_init(0, 1);\n"
             "ptx::sync_block();\n"
             "if (thread == %s)\n"
             "    ptx::mbarrier_arrive_expect_tx(0, 32);\n"
             "if (thread == 40 || thread == 50)\n"
             "    ptx::cp_async_bulk(thread == 40 ? 16 : 32, in + (thread == 40 ? 0 : 4), 16, 0);\n"
             "if (thread < 8) {\n"
             "    ptx::mbarrier_wait(0, 0);\n"
             "    out[thread] = ptx::ld_shared_u32(16 + 4 * thread);\n"
             "}\n",
             announcer);
    cpu_kernel_run(body, 1, 64, 256, in, out);
    cr_expect_arr_eq(out, in, sizeof(in), "announced by thread %s", announcer);
}

Test(cpu_group, an_announced_arrival_is_made_when_its_bytes_have_come)
{
    expect_counted("0");
    expect_counted("60");
}

/* The second 64 of 128 dims, of slots 2 to 9 of the four of a page: values name where they are
 * from, and what is outside is zeros. */
Test(cpu_group, a_tensor_copy_brings_a_box_in_the_swizzle)
{
    enum { SLOTS = 4, HEADS = 2, PAGES = 3, ROW = 128 };
    static uint16_t rows[PAGES][HEADS][SLOTS][ROW] __attribute__((aligned(16)));
    static uint16_t out[8][64];
    for (int i = 0; i < PAGES * HEADS * SLOTS * ROW; i++)
        (&rows[0][0][0][0])[i] = (uint16_t)(i + 1);
    const ftj_tensor tensor = {
        .base = (uintptr_t)rows,
        .strides = {sizeof(rows[0][0][0]), sizeof(rows[0][0]), sizeof(rows[0])},
        .dims = ROW,
        .slots = SLOTS,
        .heads = HEADS,
        .pages = PAGES,
        .box_dims = 64,
        .box_slots = 8};
    cpu_kernel_run("if (thread == 0)\n"
                   "    ptx::mbarrier_init(1024, 1);\n"
                   "ptx::sync_block();\n"
                   "if (thread == 0) {\n"
                   "    ptx::mbarrier_arrive_expect_tx(1024, 1024);\n"
                   "    ptx::cp_async_bulk_tensor(0, in, 64, 2, 1, 2, 1024);\n"
                   "}\n"
                   "ptx::mbarrier_wait(1024, 0);\n"
                   "for (uint32_t i = thread; i < 256; i += 32)\n"
                   "    out[i] = ptx::ld_shared_u32(4 * i);\n",
                   1, 32, 2048, &tensor, out);
    for (int row = 0; row < 8; row++) {
        for (int dim = 0; dim < 64; dim++) {
            const uint16_t got = out[row][(dim / 8 ^ row) * 8 + dim % 8];
            const uint16_t right = row + 2 < SLOTS ? rows[2][1][row + 2][64 + dim] : 0;
            cr_assert_eq(got, right, "row %d, dim %d: %u, not %u", row, dim, got, right);
        }
    }
}

static void expect_failure(const char *body, const char *sentence)
{
    struct cpu_kernel kernel;
    uint32_t out[128];
    cpu_kernel_init(&kernel, body, 128, 256);
    cr_expect_eq(cpu_kernel_launch(&kernel, 1, NULL, out), FTJ_E_LAUNCH);
    cr_expect_not_null(strstr(kernel.catcher.last, sentence), "%s", kernel.catcher.last);
    cpu_kernel_finish(&kernel);
}

Test(cpu_group, what_would_hang_or_go_wrong_is_a_sentence)
{
    expect_failure("if (thread == 0)\n"
                   "    ptx::mbarrier_init(16, 2);\n"
                   "ptx::sync_block();\n"
                   "if (thread == 5)\n"
                   "    ptx::mbarrier_arrive(16);\n"
                   "if (thread == 6)\n"
                   "    ptx::mbarrier_wait(16, 0);\n",
                   "thread 6 waits at mbarrier_wait for others that never come there");
    expect_failure("ptx::mbarrier_wait(8, 0);\n",
                   "an mbarrier at shared address 8 that was not initialised");
    expect_failure("ptx::mbarrier_init(252, 1);\n", "at shared address 252 of 256 bytes");
    expect_failure("if (thread < 64)\n"
                   "    ptx::wgmma_commit();\n"
                   "else\n"
                   "    ptx::wgmma_wait<0>();\n",
                   "is at wgmma_wait while 64 threads of its warpgroup are at wgmma_commit");
    expect_failure("ptx::sync_group(16, 128);\n", "there are 1 to 15");
}
