/* SPDX-License-Identifier: MIT */
/* The host's C++ compiler as the CPU target's code generator: source in, shared object out. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/environment.h"
#include "codegen/inline_source.h"
#include "runtime/backend.h"
#include "runtime/cpu/cpu_context.h"
#include "runtime/cpu/cpu_file.h"
#include "runtime/cpu/cpu_process.h"

/* A sanitized library and its kernels must come from one family, for each has its own run time:
 * clang's is part of the program, and has no more in it than the program was built with. */
#if FTJ_CPU_ASAN && defined(__clang__)
static const char *const names[] = {"clang++", "c++", "g++"};
#else
static const char *const names[] = {"c++", "g++", "clang++"};
#endif
#define NUM_NAMES (sizeof(names) / sizeof(*names))

#if !FTJ_CPU_ASAN
#define SANITIZE_OPTIONS
#elif !defined(__clang__)
#define SANITIZE_OPTIONS "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
#elif __has_feature(undefined_behavior_sanitizer)
#define SANITIZE_OPTIONS                                                                           \
    "-fsanitize=address,undefined", "-fno-sanitize=function,vptr", "-fno-sanitize-recover=all",
#else
#define SANITIZE_OPTIONS "-fsanitize=address",
#endif

/* In this order, without a path: they are part of the key. Contraction is the kernel's business
 * (ptx::fma_rn), so it is off for all of them. -Og, because kernels run for less long than they
 * compile: an extend takes 1.4 s with it, 1.9 with -O1, 3.5 with -O2, and runs about as fast; with
 * -O0 it takes 0.8, and three times as long to run. */
/* clang-format off */
static const char *const options[] = {
    "-std=c++17", "-Og", "-g0", "-w", "-shared", "-fPIC", "-fvisibility=hidden",
    "-ffp-contract=off", "-fno-strict-aliasing", "-Wl,--as-needed", SANITIZE_OPTIONS
};
/* clang-format on */
#define NUM_OPTIONS (sizeof(options) / sizeof(*options))

static size_t get_options(const struct ftj_compiler *compiler, const struct ftj_source *source,
                          const char **out, size_t max_options, char storage[64])
{
    (void)compiler;
    (void)source;
    (void)storage;
    const size_t count = NUM_OPTIONS < max_options ? NUM_OPTIONS : max_options;
    memcpy(out, options, count * sizeof(*out));
    return count;
}

/* A folder of this process alone, and the two files in it. */
struct workplace {
    char folder[400];
    char source[420];
    char object[420];
};

static ftj_status workplace_init(struct workplace *place, const struct ftj_log *log)
{
    struct workplace made = {0};
    const int length =
        snprintf(made.folder, sizeof(made.folder), "%s/ftjit-XXXXXX", ftj_temp_folder());
    if (length >= (int)sizeof(made.folder) || !mkdtemp(made.folder)) {
        return ftj_fail(log, FTJ_E_IO, "no private folder can be made in %s to compile in: %s",
                        ftj_temp_folder(), strerror(errno));
    }
    snprintf(made.source, sizeof(made.source), "%s/kernel.cpp", made.folder);
    snprintf(made.object, sizeof(made.object), "%s/kernel.so", made.folder);
    *place = made;
    return FTJ_OK;
}

static void workplace_finish(struct workplace *place)
{
    if (!place->folder[0])
        return;
    unlink(place->source);
    unlink(place->object);
    rmdir(place->folder);
}

static ftj_status write_source(const struct workplace *place, const struct ftj_text *unit,
                               const struct ftj_log *log)
{
    const int file = open(place->source, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const bool is_written = file >= 0 && ftj_cpu_file_write(file, unit->data, unit->size);
    if ((file >= 0 && close(file)) || !is_written)
        return ftj_fail(log, FTJ_E_IO, "%s cannot be written: %s", place->source, strerror(errno));
    return FTJ_OK;
}

static ftj_status run_compiler(struct ftj_compiler *compiler, const struct workplace *place,
                               struct ftj_binary *binary)
{
    const char *argv[NUM_OPTIONS + 5] = {compiler->path};
    memcpy(argv + 1, options, sizeof(options));
    argv[NUM_OPTIONS + 1] = place->source;
    argv[NUM_OPTIONS + 2] = "-o";
    argv[NUM_OPTIONS + 3] = place->object;

    bool is_success = false;
    if (!ftj_cpu_process_run(argv, compiler->timeout_s, &binary->log, &is_success)) {
        return ftj_fail(compiler->log, FTJ_E_COMPILER, "%s cannot be run: %s", compiler->path,
                        strerror(errno));
    }
    const int file = is_success ? open(place->object, O_RDONLY | O_CLOEXEC) : -1;
    const bool is_read = file >= 0 && ftj_cpu_file_read(file, &binary->code);
    if (file >= 0)
        close(file);
    if (is_read && binary->code.size > 0)
        return FTJ_OK;

    ftj_bytes_finish(&binary->code);
    return FTJ_E_COMPILE;
}

static ftj_status compile(struct ftj_compiler *compiler, const struct ftj_source *source,
                          struct ftj_binary *binary)
{
    if (!compiler->path[0]) {
        return ftj_fail(compiler->log, FTJ_E_COMPILER,
                        "no C++ compiler was found to compile kernel %s (tried %s): install one, "
                        "or name it in FTJIT_CXX",
                        source->template_id, compiler->missing);
    }
    const uint64_t start_us = ftj_now_us();
    struct workplace place = {0};
    struct ftj_text unit = {0};
    ftj_status status = ftj_inline_source(ftj_templates, ftj_num_templates, source->template_id,
                                          source->text.data, compiler->log, &unit);
    if (status)
        goto cleanup;
    status = workplace_init(&place, compiler->log);
    if (status)
        goto cleanup;
    status = write_source(&place, &unit, compiler->log);
    if (status)
        goto cleanup;
    status = run_compiler(compiler, &place, binary);
    binary->compile_us = (uint32_t)(ftj_now_us() - start_us);

cleanup:
    workplace_finish(&place);
    ftj_text_finish(&unit);
    return status;
}

/* "g++ (Debian 12.2.0-14) 12.2.0 x86_64": entries of two kinds of machine may share a folder. */
static bool identify(const char *path, uint32_t timeout_s, char *id, size_t size)
{
    const char *const argv[] = {path, "--version", NULL};
    struct ftj_bytes output = {0};
    struct utsname host;
    bool is_success = false;
    const bool has_run = ftj_cpu_process_run(argv, timeout_s, &output, &is_success);
    if (has_run && is_success && output.size > 0 && !uname(&host)) {
        const char *version = (const char *)output.data;
        snprintf(id, size, "%.*s %s", (int)strcspn(version, "\n"), version, host.machine);
    }
    ftj_bytes_finish(&output);
    return id[0] != '\0';
}

ftj_status ftj_host_compiler_find(struct ftj_compiler *compiler, const char *path,
                                  const struct ftj_log *log)
{
    struct ftj_compiler found = {
        .output = "so", .log = log, .options = get_options, .compile = compile};
    const ftj_status status = ftj_compile_timeout(&found.timeout_s, log);
    if (status)
        return status;
    if (!path || !*path)
        path = ftj_variable("FTJIT_CXX");
    const bool is_named = path != NULL;

    struct ftj_text tried = {0};
    for (size_t i = 0; i < (is_named ? 1 : NUM_NAMES); i++) {
        const char *name = is_named ? path : names[i];
        ftj_text_printf(&tried, "%s%s", i > 0 ? ", " : "", name);
        if (ftj_cpu_process_find(name, found.path, sizeof(found.path)) &&
            identify(found.path, found.timeout_s, found.id, sizeof(found.id)))
            break;
        found.path[0] = '\0';
    }
    if (!found.path[0])
        snprintf(found.missing, sizeof(found.missing), "%s", tried.failed ? "" : tried.data);
    ftj_text_finish(&tried);
    *compiler = found;
    return FTJ_OK;
}
