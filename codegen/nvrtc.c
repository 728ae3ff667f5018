/* SPDX-License-Identifier: MIT */
/* NVRTC behind the compiler interface: found at once, loaded by the first compile. */
#include "codegen/nvrtc.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPTIONS 16

struct state {
    _Atomic(struct ftj_nvrtc *) loaded; /* NULL before the first compile */
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

/* What makes NVRTC a good guest, and is no part of the key because the instructions are the same
 * with and without: register counts in the log; no look at the working directory for includes; no
 * change of the process's stack limit; and no cache of its own, which from 12.9 on would load
 * libcuda, call cuInit and so break every later fork. */
static size_t add_manners(const struct ftj_nvrtc *nvrtc, const char **options, size_t count)
{
    options[count++] = "-Xptxas=-v";
    options[count++] = "--no-source-include";
    options[count++] = "-modify-stack-limit=false";
    if (nvrtc->major > 12 || (nvrtc->major == 12 && nvrtc->minor >= 9))
        options[count++] = "--no-cache";
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

static ftj_status compile(struct ftj_compiler *compiler, const struct ftj_source *source,
                          struct ftj_binary *binary)
{
    if (!*compiler->path)
        return ftj_fail(compiler->log, FTJ_E_COMPILER,
                        "NVRTC (libnvrtc.so.13 or .so.12) is needed to compile %s for %s and was "
                        "not found; looked at %s; install a CUDA toolkit or the wheel "
                        "nvidia-cuda-nvrtc, or name it in FTJIT_NVRTC",
                        source->template_id, source->target, compiler->missing);
    struct ftj_nvrtc *nvrtc = NULL;
    const ftj_status status = get_loaded(compiler, &nvrtc);
    if (status)
        return status;
    char storage[64];
    const char *options[MAX_OPTIONS];
    const size_t count = list_options(compiler, source, options, MAX_OPTIONS / 2, storage);
    return ftj_nvrtc_compile(nvrtc, source, options, add_manners(nvrtc, options, count),
                             compiler->log, binary);
}

static void finish(struct ftj_compiler *compiler)
{
    /* NOTE(the library stays): unloading it would leak its C++ runtime's 72 KB emergency pool each
     * time, and the next context would load it again. */
    struct state *state = compiler->state;
    if (state)
        free(atomic_load(&state->loaded));
    free(state);
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
    struct ftj_text tried = {0};
    if (ftj_nvrtc_locate(path, &tried, found.path, sizeof(found.path)))
        ftj_nvrtc_identify(found.path, found.id, sizeof(found.id));
    else
        snprintf(found.missing, sizeof(found.missing), "%s", tried.data ? tried.data : "");
    ftj_text_finish(&tried);
    *compiler = found;
    return FTJ_OK;
}
