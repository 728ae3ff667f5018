/* SPDX-License-Identifier: MIT */
/* block/divisor.cuh on the CPU target: quotients by inverses are those of a division, and parts of
 * a cost are as equal as they are said to be. */
#include <criterion/criterion.h>

#include "cpu_kernel.h"

#define MAX_PAIRS 4096
#define PARTS     132

static const char unit[] =
    "#include \"ptx/ptx_cpu.cuh\"\n"
    "#include \"block/divisor.cuh\"\n"
    "struct Params { uint64_t dividends, numbers, quotients, begins, cost; uint32_t count, least; "
    "};\n"
    "extern \"C\" __global__ void ftj_kernel(const __grid_constant__ Params p) {\n"
    "    using namespace ftj;\n"
    "    for (uint32_t i = ptx::thread_index(); i < p.count; i += 32)\n"
    "        pointer<uint32_t>(p.quotients)[i] =\n"
    "            Divisor::of(pointer<uint32_t>(p.numbers)[i])\n"
    "                .divide(pointer<uint32_t>(p.dividends)[i]);\n"
    "    const EqualShares shares = {p.cost, Divisor::of(132), p.least};\n"
    "    for (uint32_t i = ptx::thread_index(); i <= 132; i += 32)\n"
    "        pointer<uint64_t>(p.begins)[i] = shares.begin(i);\n"
    "}\n"
    "FTJ_CPU_ENTRY(ftj_kernel, Params)\n";

struct params {
    uint64_t dividends, numbers, quotients, begins, cost;
    uint32_t count, least;
};

static struct session {
    struct ftj_log log;
    struct ftj_bytes code;
    struct ftj_backend backend;
    struct ftj_module module;
} session;

static void open_session(void)
{
    const struct ftj_config config = {.num_threads = 32};
    cr_assert_eq(cpu_kernel_compile(unit, &session.log, &session.code), FTJ_OK);
    cr_assert_eq(ftj_cpu_backend_init(&session.backend, &(ftj_settings){.kind = FTJ_DEVICE_CPU},
                                      &session.log),
                 FTJ_OK);
    cr_assert_eq(
        session.backend.ops->module_load(&session.backend, &session.code, &config, &session.module),
        FTJ_OK);
}

static void close_session(void)
{
    session.backend.ops->module_unload(&session.backend, &session.module);
    ftj_backend_finish(&session.backend);
    ftj_bytes_finish(&session.code);
}

static void run(struct params *params)
{
    cr_assert_eq(session.backend.ops->launch(&session.backend, &session.module,
                                             (struct ftj_grid){1, 1}, params, sizeof(*params),
                                             NULL),
                 FTJ_OK);
}

TestSuite(divisor, .init = open_session, .fini = close_session);

Test(divisor, divides_as_a_division_does)
{
    static uint32_t dividends[MAX_PAIRS], numbers[MAX_PAIRS], quotients[MAX_PAIRS];
    static uint64_t begins[PARTS + 1];
    uint32_t count = 0;
    for (uint32_t number = 1; number < 1u << 30; number += number / 8 + 1) {
        const uint32_t most = INT32_MAX / number;
        const uint32_t wholes[] = {0, 1, most / 2, most};
        for (uint32_t i = 0; i < 4; i++) {
            for (uint32_t off = 0; off < 3; off++) { /* the last of one quotient, the next two */
                const uint64_t dividend = (uint64_t)wholes[i] * number + off - 1;
                if (dividend > INT32_MAX || count == MAX_PAIRS)
                    continue;
                dividends[count] = (uint32_t)dividend;
                numbers[count++] = number;
            }
        }
    }
    cr_assert_lt(count, MAX_PAIRS);
    run(&(struct params){(uintptr_t)dividends, (uintptr_t)numbers, (uintptr_t)quotients,
                         (uintptr_t)begins, 0, count, 0});
    for (uint32_t i = 0; i < count; i++)
        cr_assert_eq(quotients[i], dividends[i] / numbers[i], "%u / %u is not %u", dividends[i],
                     numbers[i], quotients[i]);
}

Test(divisor, parts_are_equal_and_none_is_too_small)
{
    static uint64_t begins[PARTS + 1];
    const uint64_t costs[] = {0, 1, 131, 264, 265, 1000003, 4294967295u, 1ull << 40};
    for (uint32_t i = 0; i < sizeof(costs) / sizeof(costs[0]); i++) {
        for (uint32_t least = 0; least <= 2; least += 2) {
            const uint64_t cost = costs[i];
            run(&(struct params){0, 0, 0, (uintptr_t)begins, cost, 0, least});
            cr_assert_eq(begins[0], 0);
            cr_assert_eq(begins[PARTS], cost);
            const uint64_t slack = 1 + (cost >> 25); /* 132 / 2^32 of it */
            for (uint32_t part = 0; part < PARTS; part++) {
                const uint64_t share = begins[part + 1] - begins[part];
                cr_assert_leq(begins[part], begins[part + 1]);
                cr_assert_leq(share, (cost / PARTS > least ? cost / PARTS : least) + slack);
                cr_assert(share >= least || begins[part + 1] == cost, "part %u has %llu", part,
                          (unsigned long long)share);
            }
        }
    }
}
