/* SPDX-License-Identifier: MIT */
/* Two notes of each SM's cycle counter and of the device's nanoseconds: their differences are the
 * clock that the work between them had. Power limits act within milliseconds, and a management
 * library's answer is older than that. */
#include "bench/bench_clock.h"

#include <stdlib.h>
#include <string.h>

#include "base/dynlib.h"

#define QUEUE_NS 50000 /* enough for the host to launch a graph */

/* PTX: the driver assembles it for whatever device it has. One thread per block, a block per SM. */
static const char mark_kernel[] =
    ".version 6.4\n"
    ".target sm_75\n"
    ".address_size 64\n"
    ".visible .entry ftj_kernel(.param .u64 marks, .param .u64 delay)\n"
    "{\n"
    "    .reg .pred %waits, %is_known;\n"
    "    .reg .u32 %sm;\n"
    "    .reg .u64 %at, %delay, %begin, %now, %waited, %cycles;\n"
    "    ld.param.u64 %delay, [delay];\n"
    "    mov.u64 %begin, %globaltimer;\n"
    "wait:\n"
    "    mov.u64 %now, %globaltimer;\n"
    "    sub.u64 %waited, %now, %begin;\n"
    "    setp.lt.u64 %waits, %waited, %delay;\n"
    "    @%waits bra wait;\n"
    "    mov.u64 %cycles, %clock64;\n"
    "    mov.u64 %now, %globaltimer;\n"
    "    mov.u32 %sm, %smid;\n"
    "    setp.lt.u32 %is_known, %sm, 1024;\n"
    "    ld.param.u64 %at, [marks];\n"
    "    cvta.to.global.u64 %at, %at;\n"
    "    mad.wide.u32 %at, %sm, 16, %at;\n"
    "    @%is_known st.global.v2.u64 [%at], {%cycles, %now};\n"
    "    ret;\n"
    "}\n";

void bench_clock_init(struct bench_clock *clock, ftj_context *ctx,
                      const struct bench_driver *driver)
{
    struct bench_clock made = {.ctx = ctx, .driver = driver};
    ftj_device_info info;
    ftj_context_info(ctx, &info);
    made.num_sms = info.num_sms;
    if (driver->module_load(&made.module, mark_kernel) ||
        driver->module_function(&made.mark, made.module, "ftj_kernel") ||
        ftj_memory_alloc(ctx, 2 * BENCH_CLOCK_SMS * sizeof(struct bench_mark), &made.marks)) {
        bench_clock_finish(&made);
        return;
    }
    *clock = made;
}

void bench_clock_finish(struct bench_clock *clock)
{
    if (clock->marks)
        ftj_memory_free(clock->ctx, clock->marks);
    if (clock->module)
        clock->driver->module_unload(clock->module);
    *clock = (struct bench_clock){0};
}

static ftj_status note(struct bench_clock *clock, int which, unsigned long long delay_ns,
                       struct CUstream_st *stream)
{
    unsigned long long marks =
        (uintptr_t)((struct bench_mark *)clock->marks + which * BENCH_CLOCK_SMS);
    void *arguments[] = {&marks, &delay_ns};
    return bench_driver_check(clock->driver,
                              clock->driver->launch(clock->mark, clock->num_sms, 1, 1, 1, 1, 1, 0,
                                                    stream, arguments, NULL),
                              "cuLaunchKernel");
}

ftj_status bench_clock_begin(struct bench_clock *clock, struct CUstream_st *stream)
{
    if (!clock->mark)
        return FTJ_OK;
    const ftj_status status = ftj_memory_fill(clock->ctx, clock->marks, 0,
                                              2 * BENCH_CLOCK_SMS * sizeof(struct bench_mark));
    return status ? status : note(clock, 0, QUEUE_NS, stream);
}

ftj_status bench_clock_end(struct bench_clock *clock, struct CUstream_st *stream)
{
    return clock->mark ? note(clock, 1, 0, stream) : FTJ_OK;
}

unsigned bench_clock_mean(const struct bench_mark *begin, const struct bench_mark *end,
                          size_t count)
{
    double cycles = 0;
    double ns = 0;
    for (size_t sm = 0; sm < count; sm++) {
        /* An SM that one of the launches did not reach has no pair. */
        if (begin[sm].ns && end[sm].ns > begin[sm].ns && end[sm].cycles > begin[sm].cycles) {
            cycles += (double)(end[sm].cycles - begin[sm].cycles);
            ns += (double)(end[sm].ns - begin[sm].ns);
        }
    }
    return ns > 0 ? (unsigned)(1e3 * cycles / ns + 0.5) : 0;
}

unsigned bench_clock_mhz(const struct bench_clock *clock)
{
    struct bench_mark marks[2][BENCH_CLOCK_SMS];
    if (!clock->mark || ftj_memory_read(clock->ctx, marks, clock->marks, sizeof(marks)))
        return 0;
    return bench_clock_mean(marks[0], marks[1], BENCH_CLOCK_SMS);
}

void bench_driver_release(char *text, unsigned size)
{
    static const char *const names[] = {"libnvidia-ml.so.1", NULL};
    struct ftj_text tried = {0};
    int (*start)(void) = NULL;
    int (*ask)(char *text, unsigned size) = NULL;
    void *library = ftj_dynlib_open(names, &tried, NULL, 0);
    ftj_text_finish(&tried);
    text[0] = '\0';
    if (!library)
        return;
    void *symbols[] = {ftj_dynlib_symbol(library, "nvmlInit_v2"),
                       ftj_dynlib_symbol(library, "nvmlSystemGetDriverVersion")};
    memcpy(&start, &symbols[0], sizeof(start));
    memcpy(&ask, &symbols[1], sizeof(ask));
    if (start && ask && (start() || ask(text, size)))
        text[0] = '\0';
    ftj_dynlib_close(library);
}
