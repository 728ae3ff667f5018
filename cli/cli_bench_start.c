/* SPDX-License-Identifier: MIT */
/* `ftjit bench launch`, and `ftjit bench start`, which starts itself twice: with a new cache folder
 * and with the filled one. */
#define _XOPEN_SOURCE 700 /* nftw */
#include <errno.h>
#include <ftw.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/environment.h"
#include "bench/bench_launch.h"
#include "bench/bench_report.h"
#include "cli/cli_bench.h"

extern char **environ;

static cJSON *launch_json(const struct bench_session *session, const struct bench_launch *launch)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "op", "launch");
    cJSON_AddStringToObject(json, "gpu", session->info.name);
    bench_report_number(json, "bare_ns", launch->bare_ns);
    bench_report_number(json, "decode_ns", launch->decode_ns);
    cJSON_AddNumberToObject(json, "decode_launches", launch->decode_launches);
    bench_report_number(json, "store_ns", launch->store_ns);
    cJSON_AddNumberToObject(json, "store_launches", launch->store_launches);
    return json;
}

static void print_call(const char *name, double ns, uint32_t launches, double bare_ns)
{
    printf("%-22s %9.0f ns  %u launch%s", name, ns, (unsigned)launches, launches == 1 ? "" : "es");
    if (bare_ns > 0)
        printf(", %.2f x a bare one each (at most 3)", ns / launches / bare_ns);
    putchar('\n');
}

static void print_launch(const struct bench_session *session, const struct bench_launch *launch)
{
    printf("%s: host time of one call, medians\n", session->info.name);
    if (session->info.kind == FTJ_DEVICE_CPU)
        puts("(on the CPU a call runs its kernel before it returns)");
    else
        printf("%-22s %9.0f ns\n", "cuLaunchKernel, empty", launch->bare_ns);
    print_call("ftj_attention_decode", launch->decode_ns, launch->decode_launches, launch->bare_ns);
    print_call("ftj_kv_store", launch->store_ns, launch->store_launches, launch->bare_ns);
}

int cli_bench_launch(const struct cli_bench_options *options)
{
    struct bench_session session = {0};
    struct bench_launch launch;
    int code = CLI_OK;
    ftj_context *ctx = cli_device_open(&options->device, "bench", &code);
    if (!ctx)
        return code;
    session.ctx = ctx;
    ftj_context_info(ctx, &session.info);
    ftj_status status = bench_timer_init(&session.timer, ctx);
    if (!status)
        status = bench_launch_run(&session, &options->formats[0], &launch);
    if (status)
        code = cli_failure("bench", status);
    else if (options->device.is_json)
        code = cli_print_json("bench", launch_json(&session, &launch), stdout);
    else
        print_launch(&session, &launch);
    bench_session_finish(&session);
    ftj_context_destroy(ctx);
    return code;
}

/* The child: measure this process, print one document. */
static int measure_here(const struct cli_bench_options *options)
{
    struct bench_start start;
    const ftj_status status =
        bench_start_run(&options->device.settings, &options->formats[0], &start);
    if (status) {
        const int code = cli_failure("bench", status);
        return status == FTJ_E_DRIVER ? CLI_NO_DEVICE : code;
    }
    cJSON *json = cJSON_CreateObject();
    bench_report_number(json, "driver_ms", start.driver_ms);
    bench_report_number(json, "context_ms", start.context_ms);
    bench_report_number(json, "attention_ms", start.attention_ms);
    bench_report_number(json, "first_launch_ms", start.launch_ms);
    cJSON_AddNumberToObject(json, "compiles", (double)start.stats.compiles);
    cJSON_AddNumberToObject(json, "disk_hits", (double)start.stats.disk_hits);
    bench_report_number(json, "compile_ms", 1e-3 * (double)start.stats.compile_us);
    bench_report_number(json, "store_compile_ms", start.store_compile_ms);
    bench_report_number(json, "decode_compile_ms", start.decode_compile_ms);
    bench_report_number(json, "combine_compile_ms", start.combine_compile_ms);
    return cli_print_json("bench", json, stdout);
}

/* All that a pipe has, as text. */
static void read_all(int fd, struct ftj_text *text)
{
    char buffer[4096];
    for (;;) {
        const ssize_t got = read(fd, buffer, sizeof(buffer));
        if (got > 0)
            ftj_text_append(text, buffer, (size_t)got);
        else if (got == 0 || errno != EINTR)
            return;
    }
}

/* Start this program again and collect what it prints. Its exit code, or CLI_FAILED. */
static int run_self(char **arguments, struct ftj_text *printed)
{
    int ends[2];
    pid_t child;
    posix_spawn_file_actions_t actions;
    if (pipe(ends)) {
        fprintf(stderr, "ftjit bench: no pipe to a child process can be had: %s\n",
                strerror(errno));
        return CLI_FAILED;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    const int failed = posix_spawn(&child, "/proc/self/exe", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (failed) {
        fprintf(stderr, "ftjit bench: a child process could not be started: %s\n",
                strerror(failed));
        close(ends[0]);
        return CLI_FAILED;
    }
    read_all(ends[0], printed);
    close(ends[0]);
    int ended = 0;
    while (waitpid(child, &ended, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : CLI_FAILED;
}

/* One start in a new process; NULL when it failed, with `code` set. */
static cJSON *start_once(const struct cli_bench_options *options, const char *cache_dir, int *code)
{
    char device[16] = "cpu";
    char format[sizeof(options->formats[0].name)];
    char cache[256];
    if (options->device.settings.kind == FTJ_DEVICE_CUDA)
        snprintf(device, sizeof(device), "%d", options->device.settings.device);
    snprintf(format, sizeof(format), "%s", options->formats[0].name);
    snprintf(cache, sizeof(cache), "%s", cache_dir);
    char words[][24] = {"ftjit",    "bench",      "start",      "--in-this-process",
                        "--device", "--kv-dtype", "--cache-dir"};
    char *arguments[] = {words[0], words[1], words[2], words[3], words[4], device,
                         words[5], format,   words[6], cache,    NULL};

    struct ftj_text printed = {0};
    *code = run_self(arguments, &printed);
    cJSON *json = *code ? NULL : cJSON_Parse(printed.data ? printed.data : "");
    if (!json && !*code)
        *code = CLI_FAILED;
    ftj_text_finish(&printed);
    return json;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

static double number(const cJSON *json, const char *name)
{
    const cJSON *item = cJSON_GetObjectItem(json, name);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static double to_first_launch(const cJSON *start)
{
    return number(start, "context_ms") + number(start, "attention_ms") +
           number(start, "first_launch_ms");
}

static void print_start(const char *title, const cJSON *start)
{
    printf("%s\n", title);
    printf("  driver and its context  %9.1f ms\n", number(start, "driver_ms"));
    printf("  ftj_context_create      %9.1f ms\n", number(start, "context_ms"));
    printf("  ftj_attention_create    %9.1f ms  %.0f compiled, %.0f from disk\n",
           number(start, "attention_ms"), number(start, "compiles"), number(start, "disk_hits"));
    printf("  first decode, finished  %9.1f ms\n", number(start, "first_launch_ms"));
}

static int report_starts(const struct cli_bench_options *options, cJSON *cold, cJSON *warm)
{
    const bool on_gpu = options->device.settings.kind == FTJ_DEVICE_CUDA;
    int code = CLI_OK;
    if (options->device.is_json) {
        cJSON *json = cJSON_CreateObject();
        cJSON_AddStringToObject(json, "op", "start");
        cJSON_AddItemToObject(json, "cold", cJSON_Duplicate(cold, true));
        cJSON_AddItemToObject(json, "warm", cJSON_Duplicate(warm, true));
        bench_report_number(json, "warm_ms_to_first_launch", to_first_launch(warm));
        code = cli_print_json("bench", json, stdout);
    } else {
        print_start("cold cache", cold);
        print_start("warm cache, a new process", warm);
        printf("compiled: the store in %.0f ms, with the compiler's own start; then the decode in\n"
               "%.0f ms%s and its combine in %.0f ms\n",
               number(cold, "store_compile_ms"), number(cold, "decode_compile_ms"),
               on_gpu ? " (at most 1000)" : "", number(cold, "combine_compile_ms"));
        printf("with a warm cache the first launch ends %.1f ms after the driver's own start%s\n",
               to_first_launch(warm), on_gpu ? " (at most 100)" : "");
    }
    if (number(warm, "compiles") > 0) {
        fprintf(stderr, "ftjit bench: the second process compiled %.0f kernels again\n",
                number(warm, "compiles"));
        return CLI_FAILED;
    }
    return code;
}

int cli_bench_start(const struct cli_bench_options *options)
{
    if (options->is_child)
        return measure_here(options);

    char cache[256];
    const int length = snprintf(cache, sizeof(cache), "%s/ftjit-bench-XXXXXX", ftj_temp_folder());
    if (length >= (int)sizeof(cache) || !mkdtemp(cache)) {
        fprintf(stderr, "ftjit bench: %s: %s\n", cache, strerror(errno));
        return CLI_FAILED;
    }
    int code = CLI_OK;
    cJSON *cold = start_once(options, cache, &code);
    cJSON *warm = cold ? start_once(options, cache, &code) : NULL;
    if (cold && warm)
        code = report_starts(options, cold, warm);
    cJSON_Delete(cold);
    cJSON_Delete(warm);
    nftw(cache, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return code;
}
