/* SPDX-License-Identifier: MIT */
/* NVRTC behind the compiler interface: found at once, loaded by the first compile, here or in a
 * process of its own. */
#include "codegen/nvrtc.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "base/fork.h"
#include "codegen/helper_compile.h"

struct state {
    _Atomic(struct ftj_nvrtc *) loaded; /* NULL before the first compile */
    atomic_bool has_warned;             /* that there is no ftjit-cc */
    struct ftj_helpers helpers;         /* where they are kept */
};

/* Everything here decides bytes of the machine code, and is part of the key. */
static size_t list_options(const struct ftj_compiler *compiler, const struct ftj_source *source,
                           const char **options, size_t max_options, char storage[64])
{
    (void)compiler;
    snprintf(storage, 64, "--gpu-architecture=%s", source->target);
    const char *const all[] = {
        storage,
        "-std=c++17",
        "-default-device",
        source->allow_fma ? NULL : "--fmad=false",
    };
    size_t count = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        if (all[i] && count < max_options)
            options[count++] = all[i];
    }
    return count;
}

/* Threads that come first together all load it; one result is kept, which costs the others a
 * reference count. */
static ftj_status get_loaded(struct ftj_compiler *compiler, struct ftj_nvrtc **out)
{
    struct state *state = compiler->state;
    struct ftj_nvrtc *known = atomic_load(&state->loaded);
    if (known) {
        *out = known;
        return FTJ_OK;
    }
    struct ftj_nvrtc *nvrtc = calloc(1, sizeof(*nvrtc));
    if (!nvrtc)
        return ftj_fail(compiler->log, FTJ_E_NO_MEMORY, "no memory to load NVRTC");
    const ftj_status status = ftj_nvrtc_load(nvrtc, compiler->path, compiler->log);
    if (status) {
        free(nvrtc);
        return status;
    }
    if (!atomic_compare_exchange_strong(&state->loaded, &known, nvrtc)) {
        ftj_nvrtc_unload(nvrtc);
        free(nvrtc);
        nvrtc = known;
    }
    *out = nvrtc;
    return FTJ_OK;
}

static ftj_status compile_on_thread(struct ftj_compiler *compiler, const struct ftj_source *source,
                                    struct ftj_binary *binary)
{
    struct ftj_nvrtc *nvrtc = NULL;
    const ftj_status status = get_loaded(compiler, &nvrtc);
    if (status)
        return status;
    char storage[64];
    const char *options[FTJ_HELPER_MAX_OPTIONS];
    const size_t count = list_options(compiler, source, options, FTJ_HELPER_MAX_OPTIONS, storage);
    return ftj_nvrtc_compile(nvrtc, source, options, count, compiler->log, binary);
}

static ftj_status compile_in_process(struct ftj_compiler *compiler, const char *helper,
                                     const struct ftj_source *source, struct ftj_binary *binary)
{
    char storage[64];
    struct ftj_helper_request request = {
        .nvrtc = compiler->path, .timeout_s = compiler->timeout_s, .source = *source};
    request.num_options =
        list_options(compiler, source, request.options, FTJ_HELPER_MAX_OPTIONS, storage);
    struct state *state = compiler->state;
    return ftj_helper_compile(compiler->keeps_helpers ? &state->helpers : NULL, helper, &request,
                              compiler->log, binary);
}

/* Whether this compile goes to a process of its own, and to which. A forked process never compiles
 * by itself where that can be helped: the fork may have come while another thread was inside NVRTC,
 * whose locks then stay locked for ever. */
static bool has_helper(const struct ftj_compiler *compiler, char helper[PATH_MAX])
{
    const bool is_forked = ftj_fork_generation() > 0;
    if (compiler->mode != FTJ_COMPILE_PROCESS && !is_forked)
        return false;
    struct ftj_text tried = {0};
    const bool found = ftj_helper_find(helper, PATH_MAX, &tried);
    struct state *state = compiler->state;
    if (!found && !atomic_exchange(&state->has_warned, true))
        ftj_say(compiler->log, FTJ_LOG_WARNING,
                "no ftjit-cc to compile in a process of its own%s (looked at %s); NVRTC runs in "
                "this one",
                is_forked ? ", as a forked process should" : "", tried.data ? tried.data : "");
    ftj_text_finish(&tried);
    return found;
}

static ftj_status compile(struct ftj_compiler *compiler, const struct ftj_source *source,
                          struct ftj_binary *binary)
{
    if (!*compiler->path)
        return ftj_fail(compiler->log, FTJ_E_COMPILER,
                        "NVRTC (libnvrtc.so.13 or .so.12) is needed to compile %s for %s and was "
                        "not found; looked at %s; install a CUDA toolkit or the wheel "
                        "nvidia-cuda-nvrtc, or name it in FTJIT_NVRTC",
                        source->template_id, source->target, compiler->missing);
    char helper[PATH_MAX];
    return has_helper(compiler, helper) ? compile_in_process(compiler, helper, source, binary)
                                        : compile_on_thread(compiler, source, binary);
}

static void finish(struct ftj_compiler *compiler)
{
    /* NOTE(the library stays): unloading it would leak its C++ runtime's 72 KB emergency pool each
     * time, and the next context would load it again. */
    struct state *state = compiler->state;
    if (state) {
        ftj_helpers_finish(&state->helpers);
        free(atomic_load(&state->loaded));
    }
    free(state);
}

/* FTJIT_COMPILE and FTJIT_COMPILE_TIMEOUT. */
static ftj_status read_environment(struct ftj_compiler *compiler)
{
    const char *mode = ftj_variable("FTJIT_COMPILE");
    compiler->mode = FTJ_COMPILE_THREAD;
    if (mode && strcmp(mode, "process") == 0)
        compiler->mode = FTJ_COMPILE_PROCESS;
    else if (mode && strcmp(mode, "thread") != 0)
        return ftj_fail(compiler->log, FTJ_E_INVALID,
                        "FTJIT_COMPILE is \"%s\"; allowed: thread, process", mode);
    return ftj_compile_timeout(&compiler->timeout_s, compiler->log);
}

ftj_status ftj_nvrtc_find(struct ftj_compiler *compiler, const char *path,
                          const struct ftj_log *log)
{
    struct state *state = calloc(1, sizeof(*state));
    if (!state)
        return ftj_fail(log, FTJ_E_NO_MEMORY, "no memory to look for NVRTC");
    struct ftj_compiler found = {
        .output = "cubin",
        .log = log,
        .options = list_options,
        .compile = compile,
        .finish = finish,
        .state = state,
    };
    const ftj_status status = read_environment(&found);
    if (status) {
        free(state);
        return status;
    }
    ftj_fork_watch();
    struct ftj_text tried = {0};
    if (ftj_nvrtc_locate(path, &tried, found.path, sizeof(found.path)))
        ftj_nvrtc_identify(found.path, found.id, sizeof(found.id));
    else
        snprintf(found.missing, sizeof(found.missing), "%s", tried.data ? tried.data : "");
    ftj_text_finish(&tried);
    *compiler = found;
    return FTJ_OK;
}
