/* SPDX-License-Identifier: MIT */
/* How long a kernel takes that is in memory already.
 *
 * use: memory_hit FAKE_CUDA FAKE_NVRTC
 *
 * Bar: 200 ns for ftj_kernel_get(), by the quickest of many batches, so that a busy machine does
 * not matter. Prints TAP. */
#include <stdio.h>
#include <time.h>

#include "runtime/kernel.h"
#include "tests/unit/temp_dir.h"

#define BATCHES 300
#define BATCH   2000
#define MOST_NS 200.0

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

/* Of one hit; negative: it was none. */
static double least_ns(struct ftj_context *ctx, const struct ftj_problem *problem)
{
    const struct ftj_kernel *first = NULL;
    double least = 1e9;
    if (ftj_kernel_get(ctx, problem, &first))
        return -1;
    for (int batch = 0; batch < BATCHES; batch++) {
        const double start = now_ns();
        for (int i = 0; i < BATCH; i++) {
            const struct ftj_kernel *kernel = NULL;
            if (ftj_kernel_get(ctx, problem, &kernel) || kernel != first)
                return -1;
        }
        const double mean = (now_ns() - start) / BATCH;
        least = mean < least ? mean : least;
    }
    ftj_stats stats;
    ftj_context_stats(ctx, &stats);
    return stats.memory_hits == (uint64_t)BATCHES * BATCH ? least : -1;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    char cache[256];
    struct ftj_context *ctx = NULL;
    struct ftj_problem problem;
    ftj_attention_desc desc = {.num_q_heads = 32};
    const ftj_kv_shape shape = {.num_kv_heads = 8, .head_dim = 128, .page_size = 64};
    temp_dir_init(cache);
    const ftj_settings settings = {.driver_path = argv[1],
                                   .compiler_path = argv[2],
                                   .compile_mode = FTJ_COMPILE_THREAD,
                                   .cache_dir = cache};
    double least = -1;
    if (!ftj_kv_layout_init(&desc.kv, &shape) && !ftj_context_create(&settings, &ctx)) {
        ftj_problem_init(&problem, FTJ_KERNEL_DECODE, &desc);
        least = least_ns(ctx, &problem);
    }
    const bool is_fine = least >= 0 && least <= MOST_NS;
    printf("1..1\n%s 1 - a kernel from memory: %.0f ns (at most %.0f)\n", is_fine ? "ok" : "not ok",
           least, MOST_NS);
    ftj_context_destroy(ctx);
    temp_dir_finish(cache);
    return !is_fine;
}
