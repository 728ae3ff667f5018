/* SPDX-License-Identifier: MIT */
/*
 * Every variant, compiled for every target whose table chooses it, and for a quarter of those that
 * have what it uses but a better one too: for all of them where one target or variant is named. No
 * GPU is needed: NVRTC compiles for any. Prints registers, shared memory and spills, and fails on a
 * compile error, on a spill where none is allowed, and where the assembler serialised wgmma. Exits
 * 77 when there is no NVRTC.
 *
 *   compile_matrix [--all] [--target sm_90a] [--variant NAME] [--threads N]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/compile.h"
#include "tests/compile/matrix_rows.h"

enum { exit_skip = 77, max_threads = 64 };

/* Targets take turns at what none of them runs: two or three of the nine for each row. */
#define NUM_TURNS 4

static const char *const targets[] = {"sm_75",   "sm_80",   "sm_86",   "sm_89",  "sm_90a",
                                      "sm_100a", "sm_103a", "sm_120a", "sm_121a"};

/*
 * Variants that may spill, with the most that any of their kernels was measured to spill, by NVRTC
 * 13.0 or 13.5. Register caps are chosen for how many warps an SM is to run, and not every target
 * fits under them. The first line that fits a kernel counts; `of_runs` is of runs of queries alone,
 * which have up to 32 columns.
 */
static const struct {
    const char *variant;
    uint32_t bytes;
    bool of_runs;
} spill_allowances[] = {
    {"attn_decode_sm75", 180, true},      /* on sm_100a */
    {"attn_decode_sm80", 176, true},      /* on sm_120a, by 13.5 (13.0: none) */
    {"attn_decode_sm80", 8, false},       /* on sm_120a, head_dim 512, by 13.5 (13.0: none) */
    {"attn_decode_sm90", 156, true},      /* on sm_100a */
    {"attn_decode_sm90", 80, false},      /* on sm_100a, 4-bit codes */
    {"attn_extend_sm75", 356, false},     /* on sm_120a */
    {"attn_extend_sm80", 256, false},     /* on sm_90a, codes of pages of one token, widened once a
                                             block (13.0): eleven registers, once a unit */
    {"attn_extend_sm90", 304, false},     /* on sm_90a, 16-bit rows of 64 dims that cp.async brings
                                             (13.5; 13.0: 288): of the producer, which has 32
                                             registers */
    {"attn_decode_heads_sm90", 8, false}, /* on sm_90a, 4-bit codes of pages of one token */
    {"extend_combine", 16, false},        /* on sm_100a, head_dim 512 */
    {"extend_combine_sm90", 16, false},   /* likewise */
    {"kv_store_sm90", 24, false},         /* on sm_100a */
    {"kv_store", 24, false},              /* on sm_100a */
};

struct matrix_options {
    bool all;
    const char *target;  /* NULL: all */
    const char *variant; /* NULL: all */
    uint32_t num_threads;
};

/* One kernel to compile, and what came of it. */
struct matrix_job {
    const struct ftj_variant *variant;
    struct matrix_row row;
    bool is_of_runs;
    struct ftj_config config;
    struct ftj_source source; /* owned */
    struct ftj_binary binary; /* owned */
    ftj_status status;
    char error[1024];
    bool is_done;
};

struct matrix {
    struct ftj_compiler compiler;
    struct matrix_job *jobs; /* owned, num_jobs of them */
    size_t num_jobs;
    size_t capacity;
    pthread_mutex_t lock; /* of what follows, and of each job's is_done */
    size_t next_job;
    size_t num_printed;
    size_t num_failed;
};

/* Other problems often give the same source: a store does not know the group. */
static bool is_known(const struct matrix *matrix, const struct ftj_source *source)
{
    for (size_t i = 0; i < matrix->num_jobs; i++) {
        const struct ftj_source *known = &matrix->jobs[i].source;
        if (known->text.size == source->text.size && !strcmp(known->target, source->target) &&
            !memcmp(known->text.data, source->text.data, source->text.size))
            return true;
    }
    return false;
}

static bool append(struct matrix *matrix, const struct matrix_job *job)
{
    if (matrix->num_jobs == matrix->capacity) {
        const size_t capacity = matrix->capacity ? 2 * matrix->capacity : 256;
        struct matrix_job *grown = realloc(matrix->jobs, capacity * sizeof(*grown));
        if (!grown)
            return false;
        matrix->jobs = grown;
        matrix->capacity = capacity;
    }
    matrix->jobs[matrix->num_jobs++] = *job;
    return true;
}

static bool covers(const struct ftj_variant *variant, const struct ftj_problem *problem,
                   const struct ftj_device *device)
{
    return variant->op == problem->op && !(problem->needs & ~variant->covers) &&
           !(variant->uses & ~device->features);
}

/* Every variant that could serve one kernel of a row on a device, or only what the table chooses,
 * which is all that runs there unless features are taken away. */
static bool add_variants(struct matrix *matrix, const struct matrix_options *options,
                         const struct matrix_row *row, const struct ftj_problem *problem,
                         const struct ftj_device *device, bool with_others)
{
    struct ftj_config config = {0};
    const struct ftj_variant *chosen = ftj_variant_select(problem, device, &config);
    for (size_t i = 0; i < ftj_num_variants; i++) {
        struct matrix_job job = {
            .variant = &ftj_variants[i], .row = *row, .is_of_runs = problem->run_queries > 0};
        if (options->variant && strcmp(options->variant, job.variant->name) != 0)
            continue;
        if (job.variant != chosen && !with_others)
            continue;
        if (!covers(job.variant, problem, device) ||
            !job.variant->tune(problem, device, &job.config))
            continue;
        if (ftj_source_init(&job.source, job.variant, problem, &job.config, device))
            return false;
        if (is_known(matrix, &job.source)) {
            ftj_source_finish(&job.source);
            continue;
        }
        if (!append(matrix, &job)) {
            ftj_source_finish(&job.source);
            return false;
        }
    }
    return true;
}

/* Every target must serve every row: whatever the card, whatever the format. */
static bool add_row(struct matrix *matrix, const struct matrix_options *options,
                    const struct matrix_row *row, const struct ftj_device *device, bool with_others)
{
    char text[128];
    matrix_row_text(row, text, sizeof(text));
    ftj_attention_desc desc = {0};
    if (matrix_row_desc(row, &desc)) {
        fprintf(stderr, "%s: %s\n", text, ftj_last_error());
        return false;
    }
    for (int op = 0; op < FTJ_NUM_KERNEL_OPS; op++) {
        struct ftj_problem problem = {0};
        struct ftj_config config = {0};
        if (!ftj_desc_needs(&desc, (enum ftj_kernel_op)op))
            continue;
        ftj_problem_init(&problem, (enum ftj_kernel_op)op, &desc);
        if (!ftj_variant_select(&problem, device, &config)) {
            fprintf(stderr, "%s: no variant serves kernel %d on %s\n", text, op, device->target);
            return false;
        }
        if (!add_variants(matrix, options, row, &problem, device, with_others))
            return false;
    }
    return true;
}

static bool add_jobs(struct matrix *matrix, const struct matrix_options *options)
{
    for (size_t t = 0; t < sizeof(targets) / sizeof(*targets); t++) {
        if (options->target && strcmp(options->target, targets[t]) != 0)
            continue;
        struct ftj_device device = {0};
        if (ftj_device_of_target(targets[t], NULL, &device)) {
            fprintf(stderr, "%s: %s\n", targets[t], ftj_last_error());
            return false;
        }
        for (size_t i = 0; i < matrix_num_rows(options->all); i++) {
            const struct matrix_row row = matrix_row_at(options->all, i);
            const bool with_others =
                options->all || options->target || options->variant || (t + i) % NUM_TURNS == 0;
            if (!add_row(matrix, options, &row, &device, with_others))
                return false;
        }
    }
    return true;
}

static uint32_t allowed_spills(const struct matrix_job *job)
{
    for (size_t i = 0; i < sizeof(spill_allowances) / sizeof(*spill_allowances); i++) {
        if (!strcmp(spill_allowances[i].variant, job->variant->name) &&
            job->is_of_runs >= spill_allowances[i].of_runs)
            return spill_allowances[i].bytes;
    }
    return 0;
}

/* The assembler's remark (C7512, C7514 and others) that it lets no wgmma run ahead: slow, no error.
 */
static bool is_serialised(const struct ftj_binary *binary)
{
    static const char remark[] = "wgmma.mma_async instructions are serialized";
    return binary->log.size > 0 && strstr((const char *)binary->log.data, remark) != NULL;
}

/* One line of the table; false when the kernel is not as it should be. */
static bool print_job(const struct matrix_job *job)
{
    char row[128];
    matrix_row_text(&job->row, row, sizeof(row));
    const struct ftj_config *config = &job->config;
    const bool serialised = is_serialised(&job->binary);
    const bool spills = job->binary.spill_bytes > allowed_spills(job);
    printf("%-22s %-8s %-46s %4u %5u %3u %7u %5u %6u %6.0f%s\n", job->variant->name,
           job->source.target, row, config->num_threads, config->tile_tokens, config->num_stages,
           config->smem_bytes + job->binary.smem_bytes, job->binary.registers,
           job->binary.spill_bytes, job->binary.compile_us / 1e3,
           job->status  ? "  FAILED"
           : spills     ? "  SPILLS"
           : serialised ? "  SERIALISED"
                        : "");
    if (job->status)
        printf("    %s\n", job->error);
    fflush(stdout);
    return !job->status && !spills && !serialised;
}

/* Lines come in order, each as soon as those before it are there. */
static void finish_job(struct matrix *matrix, struct matrix_job *job)
{
    pthread_mutex_lock(&matrix->lock);
    job->is_done = true;
    while (matrix->num_printed < matrix->num_jobs && matrix->jobs[matrix->num_printed].is_done)
        matrix->num_failed += !print_job(&matrix->jobs[matrix->num_printed++]);
    pthread_mutex_unlock(&matrix->lock);
}

static void *compile_jobs(void *data)
{
    struct matrix *matrix = data;
    for (;;) {
        pthread_mutex_lock(&matrix->lock);
        const size_t index = matrix->next_job++;
        pthread_mutex_unlock(&matrix->lock);
        if (index >= matrix->num_jobs)
            return NULL;

        struct matrix_job *job = &matrix->jobs[index];
        job->status = matrix->compiler.compile(&matrix->compiler, &job->source, &job->binary);
        if (job->status == FTJ_E_COMPILE)
            ftj_binary_complaint(&job->binary, job->error, sizeof(job->error));
        else if (job->status)
            snprintf(job->error, sizeof(job->error), "%s", ftj_last_error());
        finish_job(matrix, job);
    }
}

/* Compile and print every job. */
static int run_jobs(struct matrix *matrix, uint32_t num_threads)
{
    pthread_t threads[max_threads];
    uint32_t started = 0;
    printf("%-22s %-8s %-46s %4s %5s %3s %7s %5s %6s %6s\n", "variant", "target", "problem", "thr",
           "tile", "st", "smem", "regs", "spills", "ms");
    while (started < num_threads && !pthread_create(&threads[started], NULL, compile_jobs, matrix))
        started++;
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);

    printf("%zu kernels compiled with %s, %zu not as they should be\n", matrix->num_printed,
           matrix->compiler.id, matrix->num_failed);
    const bool is_complete = matrix->num_jobs && matrix->num_printed == matrix->num_jobs;
    return is_complete && !matrix->num_failed ? EXIT_SUCCESS : EXIT_FAILURE;
}

static bool parse(int argc, char **argv, struct matrix_options *options)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    options->num_threads = cores > 1 ? (uint32_t)cores : 1;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--all")) {
            options->all = true;
            continue;
        }
        if (!strcmp(argv[i], "--target") && value)
            options->target = value;
        else if (!strcmp(argv[i], "--variant") && value)
            options->variant = value;
        else if (!strcmp(argv[i], "--threads") && value && atoi(value) > 0)
            options->num_threads = (uint32_t)atoi(value);
        else
            return false;
        i++;
    }
    if (options->num_threads > max_threads)
        options->num_threads = max_threads;
    return true;
}

static void matrix_finish(struct matrix *matrix)
{
    for (size_t i = 0; i < matrix->num_jobs; i++) {
        ftj_source_finish(&matrix->jobs[i].source);
        ftj_binary_finish(&matrix->jobs[i].binary);
    }
    free(matrix->jobs);
    ftj_compiler_finish(&matrix->compiler);
    pthread_mutex_destroy(&matrix->lock);
}

int main(int argc, char **argv)
{
    struct matrix_options options = {0};
    if (!parse(argc, argv, &options)) {
        fprintf(stderr, "use: compile_matrix [--all] [--target sm_90a] [--variant NAME] "
                        "[--threads N]\n");
        return 2;
    }

    struct matrix matrix = {.lock = PTHREAD_MUTEX_INITIALIZER};
    int code = EXIT_FAILURE;
    if (ftj_nvrtc_find(&matrix.compiler, NULL, NULL))
        goto cleanup;
    if (!matrix.compiler.path[0]) {
        printf("skipped: no NVRTC on this machine. %s\n", matrix.compiler.missing);
        code = exit_skip;
        goto cleanup;
    }
    if (!add_jobs(&matrix, &options))
        goto cleanup;
    code = run_jobs(&matrix, options.num_threads);

cleanup:
    matrix_finish(&matrix);
    return code;
}
